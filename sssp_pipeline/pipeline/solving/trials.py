"""Trials: the first calls of a run measure the solvers that may be the fastest. The fastest solver gets the rest.

A measured search on the CPU also corrects the forecasts of the other searches there. A graph that slows one of them
slows all of them. A sweep over a hierarchy has a forecast of its own.

A search ends where a source reaches little, and neighbouring sources reach about the same. So seconds are compared for
sources that reach the mean share of the vertices.

All solvers give the same distances, so the batches of a trial are kept. A trial that takes longer than the best solver
is stopped, and its batches are solved later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.planning.plan import RunPlan

# The seconds that a trial may waste are the sum of the next four terms.
#: A fixed number of seconds.
_FREE_S = 0.05
#: A share of the time left. A run has 64 batches, and one of them must fit this share.
_OF_LEFT = 0.02
#: A share of the time that the trial may save at best.
_OF_BEST = 0.02
#: A share of the time that the trial is expected to save.
_OF_EXPECTED = 0.1

#: Seconds to load a solver that was compiled before.
_LOAD_S = {"gpu": 0.05, "cpu": 0.5}
#: A trial must be able to save at least this multiple of the time that it may waste.
_MIN_GAIN = 2.0
#: The first call takes at least this share of the sources.
_FIRST_SHARE = 1 / 32
#: A small first call may cost at most this share of the run's time. Some solvers take as
#: long for a few sources as for many.
_FIRST_COST_SHARE = 0.05
#: A shorter run has no small first call and no trial.
_SHORT_S = 0.1
#: A trial gets more batches until a source is expected to take at most this multiple of its time in a full call.
_MAX_SOURCE_RATIO = 1.25
#: One source of a trial may take at most this multiple of the allowed mean.
_SLACK = 1.5
#: A search from a source that reaches less than this share of the vertices counts as one that reaches this share.
_LEAST_REACH = 0.05
#: Another solver takes over if its time is at most this share of the current solver's time.
_TAKE_OVER_SHARE = 0.97


@dataclass(frozen=True)
class Call:
    """The next call of a run."""

    #: The name of the solver.
    solver: str
    #: The most batches of the call.
    n_batches: int
    #: A trial is stopped if a source takes longer than this. None means that the call is not a trial.
    limit_s: float | None = None


class Trials:
    """The choice of the solver for the next call of a run.

    Parameters
    ----------
    plan
        Its `others` are tried, in the order of their forecasts.
    batches_per_call
        The number of batches of a full call.

    Attributes
    ----------
    solver
        The fastest solver so far.
    reason
        Why this solver: `RunPlan.solver_reason`, and the changes since.
    """

    def __init__(self, plan: RunPlan, batches_per_call: int) -> None:
        self.solver, self.reason = plan.solver, plan.solver_reason
        self._plan, self._batches_per_call = plan, batches_per_call
        #: The pace is that of the last call of `solver`.
        self._traits = plan.work.traits
        self._rivals = list(plan.others)
        #: The mean share of the vertices that sources reach: by a look, then of all sources so far.
        self._reach = self._traits.reach
        self._n_learned = 0
        #: Seconds per source in a full call, for each measured solver; of a search, if sources reached every vertex.
        self._measured_s: dict[str, float] = {}
        self._under_way: str | None = None

    @cached_property
    def is_worth_waiting(self) -> bool:
        """Whether calls wait for the trials. If writing takes longer than solving, another solver saves nothing."""
        plan = self._plan
        own_s = self._wall_s(self._expected_s(plan.solver, self._n_full))
        rivals_s = [self._wall_s(self._least_s(rival)) for rival in plan.others]
        return plan.work.n_sources * (own_s - min(rivals_s, default=own_s)) > _FREE_S

    @property
    def is_done(self) -> bool:
        """Whether no trial is under way and none will be."""
        return not self._rivals and self._under_way is None

    def next_call(self, n_left: int) -> Call:
        """Return the next call; `n_left` sources are not yet submitted."""
        trial = None
        if self._under_way is None and self.solver in self._measured_s:
            trial = self._trial(n_left)
        elif self._under_way is None and self._rivals:
            self._under_way = self.solver
            trial = Call(self.solver, self._first_batches(n_left))
        return trial or Call(self.solver, self._batches_per_call)

    def end(self, solver: str) -> None:
        """Note that the trial of `solver` was stopped."""
        if self._under_way == solver:
            self._under_way = None

    def learn(self, solver: str, source_s: float, n_sources: int, reach: float = 1.0) -> str | None:
        """Use the measured seconds per source of a call; return a line for the log if the solver changes.

        `reach` is the mean share of the vertices that the sources reached.
        """
        self.end(solver)
        self._reach = (self._n_learned * self._reach + n_sources * reach) / (self._n_learned + n_sources)
        self._n_learned += n_sources
        source_s /= self._share(solver, reach)
        of_full = self._forecast_s(solver, self._n_full) / self._forecast_s(solver, n_sources)
        self._measured_s[solver] = source_s * of_full
        if solver == self.solver and SOLVERS[solver].device == "cpu" and SOLVERS[solver].keeps_pace:
            times = source_s / self._forecast_s(solver, n_sources)
            self._traits = replace(self._traits, pace=self._traits.pace * times)
        best = min(self._measured_s, key=self._mean_s)
        if self.solver not in self._measured_s:
            return None
        now_s, then_s = self._mean_s(self.solver), self._mean_s(best)
        if then_s > _TAKE_OVER_SHARE * now_s:
            return None
        change = f"{best} took {1e3 * then_s:.3g} ms a source, {self.solver} {1e3 * now_s:.3g}: {best} takes the rest"
        self.solver = best
        self.reason += f"; {change}"
        return change

    def left_s(self, n_left: int) -> float:
        """Return the seconds expected for `n_left` sources: as the solver was measured, or else by its forecast."""
        is_measured = self.solver in self._measured_s
        source_s = self._mean_s(self.solver) if is_measured else self._expected_s(self.solver, self._n_full)
        return n_left * self._wall_s(source_s)

    def _mean_s(self, solver: str) -> float:
        """Return the seconds per source that were measured, for sources that reach the mean share."""
        return self._measured_s[solver] * self._share(solver, self._reach)

    def _share(self, solver: str, reach: float) -> float:
        """Return the share of its time that a source takes if it reaches this share of the vertices."""
        return 1.0 if SOLVERS[solver].unites_sources else max(reach, _LEAST_REACH)

    def _first_batches(self, n_left: int) -> int:
        """Return the number of batches of the first call."""
        full_s = self._expected_s(self.solver, self._n_full)
        if n_left * self._wall_s(full_s) <= _SHORT_S or not self.is_worth_waiting:
            return self._batches_per_call
        batch = self._plan.work.batch
        n_batches = max(1, round(n_left * _FIRST_SHARE / batch))
        while n_batches < self._batches_per_call:
            n_sources = n_batches * batch
            costs_s = n_sources * (self._expected_s(self.solver, n_sources) - full_s)
            if costs_s <= _FIRST_COST_SHARE * n_left * full_s:
                break
            n_batches *= 2
        return min(n_batches, self._batches_per_call)

    def _trial(self, n_left: int) -> Call | None:
        """Return the next trial, if one is worth its time. Solvers before it are dropped."""
        best_s = self._mean_s(self.solver)
        while self._rivals:
            rival = self._rivals.pop(0)
            at_best_s = n_left * (self._wall_s(best_s) - self._wall_s(self._least_s(rival)))
            expected_s = n_left * (best_s - self._expected_s(rival, self._n_full))
            most_s = _FREE_S + _OF_LEFT * n_left * best_s
            most_s += _OF_BEST * at_best_s + _OF_EXPECTED * max(expected_s, 0.0)
            n_batches = self._batches_of_trial(rival)
            while (limit_s := self._limit_s(rival, n_batches, best_s)) > most_s and n_batches > 1:
                n_batches //= 2
            if SOLVERS[rival].device == "cpu":  # it cannot be stopped within a source
                n_sources = n_batches * self._plan.work.batch
                limit_s = max(limit_s, n_sources * self._expected_s(rival, n_sources))
            start_s = _LOAD_S[SOLVERS[rival].device] + SOLVERS[rival].forecast(self._traits, 1).start_s
            wasted_s = limit_s * self._wall_s(best_s) / best_s + start_s
            if limit_s <= most_s and at_best_s > _MIN_GAIN * wasted_s:
                self._under_way = rival
                n_sources = n_batches * self._plan.work.batch
                forecast = SOLVERS[rival].forecast(self._traits, n_sources)
                in_search = min(forecast.at_once, forecast.most_in_search)
                return Call(rival, n_batches, _SLACK * limit_s / -(-n_sources // in_search))
        return None

    def _batches_of_trial(self, rival: str) -> int:
        """Return how many batches are enough to measure about the time of a source in a full call."""
        most_s = _MAX_SOURCE_RATIO * self._expected_s(rival, self._n_full)
        n_batches, most, batch = 1, self._batches_per_call, self._plan.work.batch
        while n_batches < most and self._expected_s(rival, n_batches * batch) > most_s:
            n_batches *= 2
        return min(n_batches, most)

    def _limit_s(self, rival: str, n_batches: int, best_s: float) -> float:
        """Return the seconds for `n_batches` at which the full calls of `rival` would be as fast as the best solver."""
        n_sources = n_batches * self._plan.work.batch
        of_call = self._expected_s(rival, n_sources) / self._expected_s(rival, self._n_full)
        return n_sources * best_s * of_call

    @property
    def _n_full(self) -> int:
        """The number of sources of a full call."""
        return min(self._batches_per_call * self._plan.work.batch, self._plan.work.n_sources)

    def _forecast_s(self, solver: str, n_sources: int) -> float:
        """Return the seconds per source of a call, if sources reach every vertex."""
        return SOLVERS[solver].forecast(self._traits, n_sources).source_s

    def _expected_s(self, solver: str, n_sources: int) -> float:
        """Return the same for sources that reach the mean share."""
        return self._forecast_s(solver, n_sources) * self._share(solver, self._reach)

    def _least_s(self, solver: str) -> float:
        """Return the fewest seconds that a source of a full call can take by the forecast."""
        off_by = SOLVERS[solver].forecast(self._traits, self._n_full).off_by
        return self._expected_s(solver, self._n_full) / off_by

    def _wall_s(self, source_s: float) -> float:
        """Return the seconds that a source adds to the run if it takes `source_s` to solve."""
        solver = SOLVERS[self.solver]
        is_shared = self._plan.work.of_a_call(solver.name).is_shared
        return self._plan.work.source_wall_s(solver, source_s, self._plan.machine, is_shared)
