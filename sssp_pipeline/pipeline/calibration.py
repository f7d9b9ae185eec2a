"""Calibration: the calls of a run show whether its plan chose well, and another solver takes over if it did not.

Any solver gives the same distances, so nothing is lost by a change: what was solved stays.
"""

from __future__ import annotations

from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.forecast import forecast
from sssp_pipeline.pipeline.plan import Plan

#: A change is worth it if it is expected to save so much of the time a source, and so many seconds in all: the kernels
#: of another solver have to be compiled or loaded.
_SHARE_SAVED = 0.2
_SAVED_S = 1.0


class Calibration:
    """Which solver a run goes on with.

    Attributes
    ----------
    solver
        For the next call.
    reason
        Why, in the words of `Plan.solver_reason` and of the changes since.
    """

    def __init__(self, plan: Plan) -> None:
        self.solver, self.reason = plan.solver, plan.solver_reason
        self._plan = plan
        #: Seconds a source: what was forecast for a call of the plan's size, or seen last.
        n_sources = min(plan.together * plan.work.batch, plan.work.n_sources)
        self._source_s = {
            name: forecast(name, plan.work.traits, n_sources).source_s for name in (plan.solver, *plan.others)
        }
        self._seen: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether a call has shown what `solver` takes, or there is no other to change to."""
        return self.solver in self._seen or len(self._source_s) == 1

    def learn(self, solver: str, source_s: float, n_left: int) -> str | None:
        """Take in that a call of `solver` took so long a source; return what changes, if something does.

        `n_left` sources are not yet on their way.
        """
        expected_s, self._source_s[solver] = self._source_s[solver], source_s
        first_seen = solver not in self._seen
        self._seen.add(solver)
        best = min(self._source_s, key=self._source_s.__getitem__)
        now_s, then_s = self._wall_s(self.solver), self._wall_s(best)
        if then_s > (1 - _SHARE_SAVED) * now_s or (now_s - then_s) * n_left < _SAVED_S:
            return None
        # A call that began before the last change may show that the change was wrong.
        other, word = (self.solver, "back from") if solver == best else (best, "on with")
        change = (
            f"{solver} took {1e3 * source_s:.3g} ms a source"
            + (f", not {1e3 * expected_s:.3g}" if first_seen else "")
            + f": {word} {other}, {1e3 * self._source_s[other]:.3g} ms"
            + ("" if other in self._seen else " expected")
        )
        self.solver = best
        self.reason += f"; {change}"
        return change

    def _wall_s(self, solver: str) -> float:
        plan = self._plan
        return plan.work.source_wall_s(SOLVERS[solver].device, self._source_s[solver], plan.machine)
