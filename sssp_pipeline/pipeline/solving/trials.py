"""Trials: the first calls of a run measure the solvers that may be the fastest, and the fastest gets the rest.

Every solver gives the same distances, so what a trial solved is kept. A trial that would take longer than the best
solver is ended, and its batches are solved later.
"""

from __future__ import annotations

from dataclasses import dataclass

from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.planning.plan import Plan

#: One trial may waste the sum of: a fixed time in seconds, a share of the time that is left, a share of the most that
#: it may save, and a share of what it is expected to save. A run has 64 batches: one must fit the second share.
_FREE_S, _OF_LEFT, _OF_BEST, _OF_EXPECTED = 0.05, 0.02, 0.02, 0.1
#: Seconds to load a solver that was compiled before.
_LOAD_S = {"gpu": 0.05, "cpu": 0.5}
#: The least ratio of what a trial may save at best to what it may waste.
_AT_BEST = 2.0
#: The least share of the sources that the first call takes; the largest share of the run's time that such a small call
#: may cost, because a solver of many sources may need as long for a few; and the seconds below which a run has no small
#: call and no trial.
_FIRST, _FIRST_COSTS, _SHORT_S = 1 / 32, 0.05, 0.1
#: The most that a source of a trial is expected to take, as a multiple of what it takes in a full call.
_ABOUT = 1.25
#: The most that one source of a trial may take, as a multiple of what the mean of its sources may take.
_SLACK = 1.5
#: Another solver takes over if its time is at most this share of the time of the present one.
_FASTER = 0.97


@dataclass(frozen=True)
class Call:
    """The next call of a run.

    Attributes
    ----------
    solver, n_batches
        Who solves, and how many batches at most.
    limit_s
        A trial is ended when a source takes longer than this; None for a call that is no trial.
    """

    solver: str
    n_batches: int
    limit_s: float | None = None


class Trials:
    """Which solver takes the next call of a run.

    Parameters
    ----------
    plan
        Its `others` are tried, the best forecast first.
    together
        Batches of a call.

    Attributes
    ----------
    solver
        The fastest so far.
    reason
        Why, in the words of `Plan.solver_reason` and of the changes since.
    """

    def __init__(self, plan: Plan, together: int) -> None:
        self.solver, self.reason = plan.solver, plan.solver_reason
        self._plan, self._together = plan, together
        self._rivals = list(plan.others)
        #: Seconds a source in a call of `together` batches, of the solvers that were measured.
        self._measured_s: dict[str, float] = {}
        self._under_way: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether no trial is under way and none will be."""
        return not self._rivals and self._under_way is None

    def next_call(self, n_left: int) -> Call:
        """Return the next call; `n_left` sources are not yet on their way."""
        if self.solver in self._measured_s:
            return (self._under_way is None and self._trial(n_left)) or Call(self.solver, self._together)
        if self._under_way is None and self._rivals:
            self._under_way = self.solver
            return Call(self.solver, self._first_batches(n_left))
        return Call(self.solver, self._together)

    def end(self, solver: str) -> None:
        """Take in that the trial of `solver` was ended."""
        if self._under_way == solver:
            self._under_way = None

    def learn(self, solver: str, source_s: float, n_sources: int) -> str | None:
        """Take in what a source took in a call of `n_sources`; return what changes, if something does."""
        self.end(solver)
        of_full = self._expected_s(solver, self._n_full) / self._expected_s(solver, n_sources)
        self._measured_s[solver] = source_s * of_full
        best = min(self._measured_s, key=self._measured_s.__getitem__)
        now_s, then_s = self._measured_s.get(self.solver), self._measured_s[best]
        if now_s is None or then_s > _FASTER * now_s:
            return None
        change = f"{best} took {1e3 * then_s:.3g} ms a source, {self.solver} {1e3 * now_s:.3g}: {best} takes the rest"
        self.solver = best
        self.reason += f"; {change}"
        return change

    def _first_batches(self, n_left: int) -> int:
        """Return how many batches the first call has."""
        full_s = self._expected_s(self.solver, self._n_full)
        if n_left * self._wall_s(full_s) <= _SHORT_S:
            return self._together
        batch = self._plan.work.batch
        n_batches = max(1, round(n_left * _FIRST / batch))
        while n_batches < self._together:
            n_sources = n_batches * batch
            costs_s = n_sources * (self._expected_s(self.solver, n_sources) - full_s)
            if costs_s <= _FIRST_COSTS * n_left * full_s:
                break
            n_batches *= 2
        return min(n_batches, self._together)

    def _trial(self, n_left: int) -> Call | None:
        """Return the next trial; rivals that are not worth one are struck off the list."""
        best_s = self._measured_s[self.solver]
        while self._rivals:
            rival = self._rivals.pop(0)
            at_best_s = n_left * (self._wall_s(best_s) - self._wall_s(self._least_s(rival)))
            expected_s = n_left * (best_s - self._expected_s(rival, self._n_full))
            most_s = _FREE_S + _OF_LEFT * n_left * best_s
            most_s += _OF_BEST * at_best_s + _OF_EXPECTED * max(expected_s, 0.0)
            n_batches = self._batches_of_trial(rival)
            while (limit_s := self._limit_s(rival, n_batches, best_s)) > most_s and n_batches > 1:
                n_batches //= 2
            if SOLVERS[rival].device == "cpu":  # it cannot be ended within a source
                n_sources = n_batches * self._plan.work.batch
                limit_s = max(limit_s, n_sources * self._expected_s(rival, n_sources))
            wasted_s = limit_s * self._wall_s(best_s) / best_s + _LOAD_S[SOLVERS[rival].device]
            if limit_s <= most_s and at_best_s > _AT_BEST * wasted_s:
                self._under_way = rival
                n_sources = n_batches * self._plan.work.batch
                forecast = SOLVERS[rival].forecast(self._plan.work.traits, n_sources)
                in_search = min(forecast.at_once, forecast.most_in_search)
                return Call(rival, n_batches, _SLACK * limit_s / -(-n_sources // in_search))
        return None

    def _batches_of_trial(self, rival: str) -> int:
        """Return how many batches show about what a source takes in a full call."""
        most_s = _ABOUT * self._expected_s(rival, self._n_full)
        n_batches = 1
        while (
            n_batches < self._together and self._expected_s(rival, n_batches * self._plan.work.batch) > most_s
        ):
            n_batches *= 2
        return min(n_batches, self._together)

    def _limit_s(self, rival: str, n_batches: int, best_s: float) -> float:
        """Return the time that `rival` may take for `n_batches` if its full calls are to be faster than the best."""
        n_sources = n_batches * self._plan.work.batch
        of_call = self._expected_s(rival, n_sources) / self._expected_s(rival, self._n_full)
        return n_sources * best_s * of_call

    @property
    def _n_full(self) -> int:
        """The sources of a call of `together` batches."""
        return min(self._together * self._plan.work.batch, self._plan.work.n_sources)

    def _expected_s(self, solver: str, n_sources: int) -> float:
        return SOLVERS[solver].forecast(self._plan.work.traits, n_sources).source_s

    def _least_s(self, solver: str) -> float:
        """Return what a source of a full call may take at least."""
        expected = SOLVERS[solver].forecast(self._plan.work.traits, self._n_full)
        return expected.source_s / expected.off_by

    def _wall_s(self, source_s: float) -> float:
        """Return by how much a source lengthens the run if solving it takes so long."""
        solver = SOLVERS[self.solver]
        is_shared = self._plan.work.of_a_call(solver.name).is_shared
        return self._plan.work.source_wall_s(solver.device, source_s, self._plan.machine, is_shared)
