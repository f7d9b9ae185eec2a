"""If driver, GPU, CuPy or NVRTC is missing or does not fit, one line says so and one says what to do."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.gpu.common.cuda import cupy_setup
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import Driver, first_line
from sssp_pipeline.pipeline.planning.machine import diagnose

H200 = Driver(0, 1, (12, 4), "NVIDIA H200", (9, 0))
CUDA12 = [("cupy-cuda12x", "14.2.0")]
NVRTC = ((12, 9), [75, 80, 86, 87, 89, 90, 100, 120])


@pytest.fixture
def machine(monkeypatch):
    """Replace the answers of the probes, and check again."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def answering(driver=H200, packages=CUDA12, cupy=None, nvrtc=NVRTC, device_files=False):
        monkeypatch.setattr(cupy_setup, "ask_driver", lambda: driver)
        monkeypatch.setattr(cupy_setup, "has_device_files", lambda: device_files)
        monkeypatch.setattr(cupy_setup, "cupy_packages", lambda: packages)
        monkeypatch.setattr(cupy_setup, "ask_cupy", lambda: cupy)
        monkeypatch.setattr(cupy_setup, "ask_nvrtc", lambda: nvrtc)
        cupy_setup._look.cache_clear()

    yield answering
    cupy_setup._look.cache_clear()


class FakeDriver:
    """NVIDIA's driver with one GPU. It counts the calls of each function."""

    def __init__(self, n_devices: int) -> None:
        self.n_devices, self.calls = n_devices, Counter()

    def __getattr__(self, name):
        def call(*arguments):
            self.calls[name] += 1
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = self.n_devices
            return 0

        return call


@pytest.mark.parametrize(
    ("n_devices", "has_cupy", "n_contexts"), [(2, True, 1), (2, False, 0), (0, True, 0), (None, True, 0)]
)
def test_a_thread_makes_the_context_of_the_first_gpu(monkeypatch, n_devices, has_cupy, n_contexts):
    driver = FakeDriver(n_devices)

    def load(name):
        assert name == "libcuda.so.1"
        if n_devices is None:
            raise OSError(name)
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if has_cupy else None)
    cupy_setup.prepare_gpu().join()
    assert driver.calls["cuInit"] == (n_devices is not None)
    assert driver.calls["cuDevicePrimaryCtxRetain"] == n_contexts


@pytest.mark.parametrize(("left_out", "loaded"), [([], ["cutensor", "nvrtc"]), (["pandas"], ["nvrtc"])])
def test_a_process_of_one_command_loads_no_cutensor_for_cupy(tmp_path, monkeypatch, left_out, loaded):
    found = []
    pathfinder = SimpleNamespace(load_nvidia_dynamic_lib=found.append, DynamicLibNotFoundError=RuntimeError)
    (tmp_path / "cupy.py").write_text(
        "from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib\n"
        "for name in ('cutensor', 'nvrtc'):\n"
        "    try:\n"
        "        load_nvidia_dynamic_lib(name)\n"
        "    except DynamicLibNotFoundError:\n"
        "        pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(pathfinder=pathfinder))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(cupy_setup, "left_out", left_out)
    assert cupy_setup.ask_cupy().startswith("module 'cupy' has no attribute 'cuda'")
    del sys.modules["cupy"]  # `monkeypatch` would put it back, for later tests of this process
    assert found == loaded
    assert pathfinder.load_nvidia_dynamic_lib == found.append


def test_what_fits_is_ok(machine):
    machine()
    assert [(f.name, f.state, f.detail) for f in cupy_setup.gpu_findings()] == [
        ("gpu", "ok", "NVIDIA H200, compute capability 9.0, driver for CUDA 12.4"),
        ("cupy", "ok", "cupy-cuda12x 14.2.0"),
        ("nvrtc", "ok", "NVRTC 12.9 compiles for compute capability 7.5 to 12.0"),
    ]
    assert cupy_setup.gpu_missing() is None


@pytest.mark.parametrize(
    ("there", "finding", "hint"),
    [
        (
            {"driver": None},
            "gpu absent: no NVIDIA driver (libcuda.so.1)",
            "the CPU solvers need none; a GPU needs NVIDIA's driver",
        ),
        (
            {"driver": None, "device_files": True},
            "gpu broken: the GPU's device files are here, but not the NVIDIA driver's library (libcuda.so.1)",
            "start the container with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
        (
            {"driver": Driver(100)},
            "gpu absent: the NVIDIA driver sees no GPU",
            "`nvidia-smi` and `dmesg` show why",
        ),
        (
            {"driver": Driver(803)},
            "gpu broken: the NVIDIA driver's library and its kernel module are of different releases (error 803)",
            "restart the machine; in a container, use the host's libcuda.so.1",
        ),
        (
            {"driver": Driver(34)},
            "gpu broken: libcuda.so.1 is the CUDA toolkit's stub, not a driver",
            "take the toolkit's `stubs` folder out of LD_LIBRARY_PATH",
        ),
        (
            {"driver": Driver(999)},
            "gpu broken: the NVIDIA driver answers error 999 to cuInit",
            "`nvidia-smi` shows more",
        ),
        (
            {"driver": Driver(0, 1, (12, 4), "GTX 1080", (6, 1))},
            "gpu broken: the GPU (GTX 1080) has compute capability 6.1, the kernels need 7.0",
            "use the CPU solvers, or a GPU from 2017 (Volta) on",
        ),
        (
            {"packages": []},
            "cupy absent: there is a GPU, but CuPy is not installed",
            "pip install 'sssp-pipeline[gpu]'",
        ),
        (
            {"packages": [], "driver": Driver(0, 1, (13, 0), "NVIDIA H200", (9, 0))},
            "cupy absent: there is a GPU, but CuPy is not installed",
            "pip install 'sssp-pipeline[cuda13]'",
        ),
        (
            {"packages": [("cupy-cuda11x", "13.6.0"), *CUDA12]},
            "cupy broken: several CuPy packages overwrite each other's files: cupy-cuda11x 13.6.0, cupy-cuda12x 14.2.0",
            "pip uninstall -y cupy-cuda11x cupy-cuda12x; then pip install 'sssp-pipeline[gpu]'",
        ),
        (
            {"driver": Driver(0, 1, (11, 4), "Tesla V100", (7, 0))},
            "cupy broken: cupy-cuda12x 14.2.0 needs a driver for CUDA 12.0, this one is for 11.4",
            "update the NVIDIA driver to 525 or later",
        ),
        (
            {"packages": [("cupy-cuda13x", "14.2.0")]},
            "cupy broken: cupy-cuda13x 14.2.0 needs a driver for CUDA 13.0, this one is for 12.4",
            "update the NVIDIA driver to 580 or later, or: pip uninstall -y cupy-cuda13x; then "
            "pip install 'sssp-pipeline[gpu]'",
        ),
        (
            {"cupy": "ImportError: no libcudart.so.12"},
            "cupy broken: cupy-cuda12x 14.2.0 does not work here: ImportError: no libcudart.so.12",
            "pip uninstall -y cupy-cuda12x; then pip install 'sssp-pipeline[gpu]'",
        ),
        (
            {"nvrtc": "CuPy failed to load libnvrtc.so.12"},
            "nvrtc broken: NVRTC, CUDA's compiler, cannot be loaded: CuPy failed to load libnvrtc.so.12",
            "pip install 'nvidia-cuda-nvrtc-cu12==12.*', or install the CUDA 12 toolkit",
        ),
        (
            {"driver": Driver(0, 1, (13, 0), "RTX 5090", (12, 0)), "nvrtc": ((12, 4), [50, 75, 90])},
            "nvrtc broken: NVRTC 12.4 compiles for compute capability 5.0 to 9.0, this GPU has 12.0",
            "pip install -U 'nvidia-cuda-nvrtc-cu12==12.*', or install a newer CUDA 12 toolkit",
        ),
        (
            {
                "driver": Driver(0, 1, (13, 0), "Tesla V100", (7, 0)),
                "packages": [("cupy-cuda13x", "14.2.0")],
                "nvrtc": ((13, 0), [75, 120]),
            },
            "nvrtc broken: NVRTC 13.0 compiles for compute capability 7.5 to 12.0, this GPU has 7.0",
            "pip uninstall -y cupy-cuda13x; then pip install 'sssp-pipeline[cuda12]'",
        ),
    ],
)
def test_what_is_wrong_and_what_to_do(machine, there, finding, hint):
    machine(**there)
    first = next(f for f in cupy_setup.gpu_findings() if f.state != "ok")
    assert (f"{first.name} {first.state}: {first.detail}", first.hint) == (finding, hint)
    assert cupy_setup.gpu_missing() == first.detail
    with pytest.raises(SsspError) as caught:
        cupy_setup.cupy_module()
    assert (caught.value.message, caught.value.hint) == (first.detail, hint)
    # `doctor` tells it too, and tries nothing that needs what is missing.
    told = {f.name: f for f in diagnose()}
    assert told[first.name] == first
    assert told["kernels"].state == "absent"


@pytest.mark.parametrize("visible", ["", "-1", "7"])
def test_gpus_that_are_hidden(machine, monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    machine(driver=Driver(100))
    finding = cupy_setup.gpu_findings()[0]
    assert (finding.state, finding.detail) == (
        "absent",
        f"CUDA_VISIBLE_DEVICES is `{visible}` and hides every GPU",
    )
    assert finding.hint.startswith("unset it, or ")


class Libcuda:
    """A stand-in for the driver's library."""

    def __init__(self, init=0, count=1):
        self.init, self.count = init, count

    def cuInit(self, flags):
        return self.init

    def cuDriverGetVersion(self, number):
        number._obj.value = 12040
        return 0

    def cuDeviceGetCount(self, number):
        number._obj.value = self.count
        return 0

    def cuDeviceGetName(self, name, length, device):
        name.value = b"NVIDIA H200"
        return 0

    def cuDeviceGetAttribute(self, number, attribute, device):
        number._obj.value = {75: 9, 76: 0}[attribute]
        return 0


@pytest.mark.parametrize(
    ("library", "answer"),
    [(None, None), (Libcuda(init=803), Driver(803)), (Libcuda(count=0), Driver(0)), (Libcuda(), H200)],
)
def test_what_the_driver_is_asked(monkeypatch, library, answer):
    def load(name):
        assert name == "libcuda.so.1"
        if library is None:
            raise OSError("not there")
        return library

    monkeypatch.setattr(cupy_setup.ctypes, "CDLL", load)
    assert cupy_setup.ask_driver() == answer


def test_installed_cupy_packages_are_found_by_name(monkeypatch):
    there = {"cupy-cuda11x": "13.6.0", "cupy-cuda12x": "14.2.0", "numpy": "2.4.6"}

    def version(name):
        if name not in there:
            raise cupy_setup.importlib.metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(cupy_setup.importlib.metadata, "version", version)
    assert cupy_setup.cupy_packages() == [("cupy-cuda11x", "13.6.0"), ("cupy-cuda12x", "14.2.0")]


def test_threads_that_ask_at_once_look_once(machine, monkeypatch):
    machine()
    asked = []
    monkeypatch.setattr(cupy_setup, "ask_driver", lambda: (asked.append(1), time.sleep(0.05)) and H200)
    with ThreadPoolExecutor(8) as pool:
        assert [pool.submit(cupy_setup.gpu_missing) for _ in range(8)][-1].result() is None
    assert asked == [1]


def test_cupys_import_error_is_told_without_its_ruled_heading():
    rule = "=" * 64
    told = (
        f"\n{rule}\nFailed to import CuPy.\n\nOriginal error:\n  ImportError: libcudart.so.12: no\n{rule}\n"
    )
    assert first_line(ImportError(told)) == "ImportError: libcudart.so.12: no"
    assert first_line(OSError("one\ntwo")) == "one"
    assert first_line(KeyError()) == "KeyError"
