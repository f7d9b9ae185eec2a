"""Launches that are repeated, with a stand-in for the streams of CuPy."""

from types import SimpleNamespace

import pytest

from sssp_pipeline.kernels.gpu.common.cuda import repeated_launches
from sssp_pipeline.kernels.gpu.common.cuda.repeated_launches import RepeatedLaunches


class Device:
    """Notes what runs; while a stream records, launches become a graph."""

    def __init__(self):
        self.ran: list[str] = []
        self.n_recorded = 0
        self._recording: list[str] | None = None
        self.is_invalid = False

    def launch(self, *kernels: str) -> None:
        (self.ran if self._recording is None else self._recording).extend(kernels)

    def stream(self, *, non_blocking: bool):
        assert non_blocking, "other streams would wait for it"
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def begin_capture(self) -> None:
        self._recording = []

    def end_capture(self):
        recorded, self._recording = self._recording, None
        if self.is_invalid:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        self.n_recorded += 1
        return SimpleNamespace(launch=lambda: self.ran.extend(recorded))


@pytest.fixture
def device(monkeypatch):
    found = Device()
    cuda = SimpleNamespace(Stream=found.stream)
    monkeypatch.setattr(repeated_launches, "cupy_module", lambda: SimpleNamespace(cuda=cuda))
    return found


def test_every_time_the_same_kernels_run_and_the_second_time_they_are_recorded(device):
    launches = RepeatedLaunches()
    for n_recorded in (0, 1, 1, 1):
        device.ran.clear()
        launches.run(b"a", lambda: device.launch("climb", "sweep"))
        assert (device.ran, device.n_recorded) == (["climb", "sweep"], n_recorded)


def test_other_arguments_are_another_sequence(device):
    launches = RepeatedLaunches()
    for _ in range(3):
        for name in ("a", "b"):
            device.ran.clear()
            launches.run(name.encode(), lambda name=name: device.launch(name))
            assert device.ran == [name]
    assert device.n_recorded == 2


def test_only_the_last_sequences_are_kept(device):
    launches = RepeatedLaunches()
    for _ in range(3):  # each is forgotten before it comes again
        for i in range(repeated_launches._MOST + 1):
            launches.run(bytes([i]), lambda: device.launch("kernel"))
    assert device.n_recorded == 0
    assert len(device.ran) == 3 * (repeated_launches._MOST + 1)


def test_sequences_that_are_forgotten_before_their_graph_is_used_are_not_recorded_for_ever(device):
    launches, names = RepeatedLaunches(), range(repeated_launches._MOST + 1)
    for _ in range(20):
        for i in names:
            for _ in range(2):
                device.ran.clear()
                launches.run(bytes([i]), lambda i=i: device.launch(f"kernel {i}"))
                assert device.ran == [f"kernel {i}"]
    assert device.n_recorded == repeated_launches._MOST


def test_after_many_that_were_in_vain_a_sequence_that_stays_is_recorded(device):
    launches = RepeatedLaunches()
    for i in range(100):
        for _ in range(2):
            launches.run(bytes([i]), lambda: device.launch("kernel"))
    n_in_vain = device.n_recorded
    for _ in range(10):
        for name in (b"a", b"b"):
            launches.run(name, lambda: device.launch("kernel"))
    assert device.n_recorded == n_in_vain + 2


def test_a_launch_that_fails_while_it_is_recorded_is_not_kept(device):
    launches = RepeatedLaunches()
    launches.run(b"a", lambda: device.launch("kernel"))

    def fails():
        device.is_invalid = True
        raise RuntimeError("too many blocks")

    with pytest.raises(RuntimeError, match="too many blocks"):
        launches.run(b"a", fails)
    launches.run(b"a", lambda: device.launch("kernel"))
    assert device.ran == ["kernel", "kernel"]
