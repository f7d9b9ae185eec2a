"""NetworkX's own tests of the functions, with the backend forced."""

from __future__ import annotations

import json
import re

import pytest

from sssp_pipeline.networkx_backend.info import FUNCTIONS

#: The modules, and how many tests of each must pass; NetworkX 3.3, the oldest release that is supported, has as many.
MODULES = {
    "networkx.algorithms.shortest_paths.tests.test_weighted": 56,
    "networkx.algorithms.shortest_paths.tests.test_generic": 27,
    "networkx.algorithms.shortest_paths.tests.test_unweighted": 17,
    "networkx.algorithms.tests.test_distance_measures": 82,
    "networkx.algorithms.centrality.tests.test_closeness_centrality": 13,
    "networkx.algorithms.centrality.tests.test_harmonic_centrality": 13,
    "networkx.algorithms.centrality.tests.test_betweenness_centrality": 37,
    "networkx.algorithms.centrality.tests.test_betweenness_centrality_subset": 17,
}

#: NetworkX compares the same four measures on 500 random graphs, of ten seeds each. One seed calls the same functions.
SELECTED = "not test_use_bounds_on_off_consistency or -0]"

#: Counts the calls that the backend completes, by function, and the outcomes of the tests, by module.
PLUGIN = """
import json
from collections import Counter, defaultdict

import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS

calls, outcomes = Counter(), defaultdict(Counter)


def counted(name, function):
    def run(*args, **kwargs):
        found = function(*args, **kwargs)
        calls[name] += 1
        return found

    return run


for name in FUNCTIONS:
    setattr(interface, name, counted(name, getattr(interface, name)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.when == "call" or not report.passed:
        outcomes[item.module.__name__][report.outcome] += 1
    return report


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("counts: " + json.dumps([calls, outcomes]))
"""


@pytest.mark.slow
def test_networkx_own_tests_pass(python, tmp_path):
    (tmp_path / "count_calls.py").write_text(PLUGIN)
    done = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "count_calls"),
        *("-k", SELECTED, "--pyargs", *MODULES),
        folder=tmp_path,
        NETWORKX_TEST_BACKEND="sssp_pipeline",
        NETWORKX_FALLBACK_TO_NX="true",
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    calls, outcomes = json.loads(re.search(r"^counts: (.*)$", done.stdout, re.MULTILINE)[1])
    for module, least in MODULES.items():
        assert outcomes[module].keys() == {"passed"}, module
        assert outcomes[module]["passed"] >= least, module
    assert calls.keys() == set(FUNCTIONS)
