"""As much of CuPy as the package uses, with one device in host memory: kernels are compiled by g++ (`shim.h`) and run.

Memory is filled with 0xCD before it is used, and copies beyond its end fail. Blocks and threads run in ascending,
descending and random order, in turns.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import subprocess
import threading
import types
from pathlib import Path

import numpy as np

_SHIM = Path(__file__).parents[1] / "shim.h"
#: The folder of what was compiled.
CACHE = Path(os.environ["EMULATION_CACHE"])
CACHE.mkdir(exist_ok=True)
#: A GPU has some of these, so blocks of one kernel share the work in several ways.
_MULTIPROCESSORS = 4
_n_launches = 0
_lock = threading.RLock()
_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


class _Block:
    def __init__(self, n):
        self.ptr = _libc.malloc(max(n, 1) if n else 16)
        if n:
            ctypes.memset(self.ptr, 0xCD, n)
        self.n = n

    def __del__(self):
        _libc.free(self.ptr)


class _Memory:
    """MemoryPointer."""

    def __init__(self, array):
        self._array = array

    @property
    def ptr(self):
        return self._array._a.ctypes.data if self._array._a.size else 0

    @property
    def device(self):
        return _device

    def _check(self, n):
        assert 0 <= n <= self._array._room(), (n, self._array._room())

    def memset_async(self, value, n, stream=None):
        self._check(n)
        if n:
            ctypes.memset(self.ptr, value, n)

    memset = memset_async

    def copy_from_host_async(self, ptr, n, stream=None):
        self._check(n)
        ctypes.memmove(self.ptr, int(getattr(ptr, "value", ptr)), n)

    def copy_from_device_async(self, other, n, stream=None):
        self._check(n)
        ctypes.memmove(self.ptr, other.ptr, n)

    copy_from_device = copy_from_device_async


def _wrap(x):
    if isinstance(x, np.ndarray):
        return ndarray(x, None)
    if isinstance(x, np.generic):
        return ndarray(_own(np.asarray(x)), None)
    return x


def _own(values):
    made = empty(values.shape, values.dtype)
    made._a[...] = values
    return made._a


def _raw(x):
    if isinstance(x, ndarray):
        return x._a
    if isinstance(x, tuple):
        return tuple(_raw(i) for i in x)
    return x


class ndarray:
    __array_ufunc__ = None

    def __init__(self, a, block):
        self._a, self._block = a, block

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    shape = property(lambda s: s._a.shape)
    dtype = property(lambda s: s._a.dtype)
    size = property(lambda s: s._a.size)
    nbytes = property(lambda s: s._a.nbytes)
    itemsize = property(lambda s: s._a.itemsize)
    ndim = property(lambda s: s._a.ndim)
    strides = property(lambda s: s._a.strides)
    flags = property(lambda s: s._a.flags)
    device = property(lambda s: _device)
    data = property(lambda s: _Memory(s))
    T = property(lambda s: _wrap(s._a.T))

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "version": 3,
            "strides": None,
        }

    def _room(self):
        base = self._a
        while isinstance(base.base, np.ndarray):
            base = base.base
        return base.ctypes.data + base.nbytes - self._a.ctypes.data

    def __len__(self):
        return len(self._a)

    def get(self, stream=None, order="C", out=None, blocking=True):
        if out is None:
            return np.array(self._a, order="C")
        assert (out.shape, out.dtype) == (self.shape, self.dtype)
        assert out.flags.c_contiguous
        out[...] = self._a
        return out

    def set(self, arr, stream=None):
        assert (arr.shape, arr.dtype) == (self.shape, self.dtype)
        self._a[...] = arr

    def fill(self, v):
        self._a.fill(_raw(v))

    def __getitem__(self, k):
        return _wrap(self._a[_raw(k)])

    def __setitem__(self, k, v):
        assert not isinstance(v, np.ndarray) or v.ndim == 0
        self._a[_raw(k)] = _raw(v)

    def view(self, *a):
        return _wrap(self._a.view(*a))

    def __iter__(self):
        return (_wrap(x) for x in self._a)

    def __int__(self):
        return int(self._a)

    def __float__(self):
        return float(self._a)

    def __bool__(self):
        return bool(self._a)

    def __index__(self):
        return int(self._a)

    def item(self, *a):
        return self._a.item(*a)

    def tolist(self):
        return self._a.tolist()

    def copy(self):
        return ndarray(_own(self._a), None)

    def __del__(self):
        pass


def _method(name):
    def f(self, *a, **k):
        return _wrap(getattr(self._a, name)(*map(_raw, a), **{i: _raw(v) for i, v in k.items()}))

    return f


for _n in (
    "astype",
    "reshape",
    "ravel",
    "all",
    "any",
    "min",
    "max",
    "mean",
    "sum",
    "argmax",
    "argmin",
    "cumsum",
    "repeat",
    "squeeze",
    "transpose",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__lshift__",
    "__rshift__",
    "__and__",
    "__or__",
    "__xor__",
    "__invert__",
    "__neg__",
    "__radd__",
    "__rsub__",
    "__rmul__",
):
    setattr(ndarray, _n, _method(_n))


def empty(shape, dtype=float, order="C"):
    dtype = np.dtype(dtype)
    shape = tuple(int(i) for i in shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if n > 8 * 2**30:
        raise cuda.memory.OutOfMemoryError("too much")
    block = _Block(n)
    buffer = (ctypes.c_ubyte * max(n, 1)).from_address(block.ptr)
    buffer._block = block  # kept by the array's base
    a = np.frombuffer(buffer, np.uint8, n).view(dtype).reshape(shape) if n else np.empty(shape, dtype)
    return ndarray(a, block)


def zeros(shape, dtype=float):
    made = empty(shape, dtype)
    made._a.fill(0)
    return made


def ones(shape, dtype=float):
    made = empty(shape, dtype)
    made._a.fill(1)
    return made


def full(shape, v, dtype=None):
    made = empty(shape, dtype or np.asarray(v).dtype)
    made._a.fill(v)
    return made


def asarray(x, dtype=None):
    if isinstance(x, ndarray):
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    return ndarray(_own(np.asarray(x, dtype)), None)


array = asarray


def asnumpy(x):
    return x.get() if isinstance(x, ndarray) else np.asarray(x)


def empty_like(x):
    return empty(x.shape, x.dtype)


def concatenate(arrays, axis=0):
    return _wrap(np.concatenate([_raw(a) for a in arrays], axis))


def arange(*a, **k):
    return _wrap(np.arange(*a, **k))


uint32, uint64, int32, int64, float32, float64, uint8 = (
    np.uint32,
    np.uint64,
    np.int32,
    np.int64,
    np.float32,
    np.float64,
    np.uint8,
)

ASM = [
    (
        r'asm volatile\("(?:ld\.(?:relaxed|acquire)\.gpu\.global\.u\d+) %0, \[%1\];" '
        r': "=\w"\((\w+)\) : "l"\((\w+)\) : "memory"\);',
        r"\1 = *\2;",
    ),
    (
        r'asm volatile\("ld\.relaxed\.gpu\.global\.v4\.u32.*?: "memory"\);',
        r"for (int i = 0; i < 4; ++i) values[i] = address[i];",
    ),
    (
        r'asm volatile\("st\.\w+\.gpu\.global\.u\d+ \[%0\], %1;" : : "l"\((\w+)\), "\w"\((\w+)\) : "memory"\);',
        r"*\1 = \2;",
    ),
    (
        r'asm volatile\("atom\.add\.\w+\.gpu\.global\.u\d+ %0, \[%1\], %2;"'
        r' : "=\w"\((\w+)\) : "l"\((\w+)\), "\w"\((\w+)\) : "memory"\);',
        r"\1 = atomicAdd(\2, \3);",
    ),
    (r'asm volatile\("fence[^;]*;" : : : "memory"\);', ""),
    (
        r'asm volatile\("mov\.u64 %0, %%globaltimer;" : "=l"\((\w+)\)\);',
        r"static word64 ticks; \1 = ++ticks;",
    ),
    (r'asm\("add\.rn\.f32 %0, %1, %2;" : "=f"\(sum\) : "f"\((.*?)\), "f"\((.*?)\)\);', r"sum = \1 + \2;"),
    (
        r'asm\("add\.rn\.f64 %0, %1, %2;"\s*: "=d"\(sum\)\s*: "d"\((.*?)\),\s*"d"\((.*?)\)\);',
        r"sum = \1 + \2;",
    ),
    (r"extern __shared__ (\w+) (\w+)\[\];", r"\1* \2 = reinterpret_cast<\1*>(emu_dynamic);"),
]


def _translated(text):
    for pattern, new in ASM:
        text = re.sub(pattern, new, text, flags=re.S)
    assert not re.search(r"asm(?: volatile)?\(", text), re.findall(r"asm.*", text)
    return text


@contextlib.contextmanager
def _nothing():
    yield


def _headers(options):
    """Translate the include folders once."""
    new = []
    for option in options:
        if not option.startswith("-I"):
            continue
        folder = Path(option[2:])
        files = sorted(folder.glob("*.cuh"))
        texts = {f.name: _translated(f.read_text()) for f in files}
        digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
        to = CACHE / f"h{digest}"
        if not to.exists():
            part = CACHE / f"h{digest}.{os.getpid()}"
            part.mkdir(exist_ok=True)
            for name, text in texts.items():
                (part / name).write_text(text)
            with contextlib.suppress(OSError):  # another process was faster
                part.rename(to)
        new.append(f"-I{to}")
    return new


class RawModule:
    def __init__(self, code=None, options=(), **_):
        self._code, self._options = code, options

    def compile(self, log_stream=None):
        macros = [o for o in self._options if o.startswith("-D") and not o.startswith("-DSSSP_DIGEST")]
        code = f'#include "{_SHIM}"\n{_translated(self._code)}\n'
        flags = [
            *(
                "-x",
                "c++",
                "-std=c++17",
                "-O1",
                "-w",
                "-fpermissive",
                "-ffp-contract=off",
                "-fno-strict-aliasing",
            ),
            *_headers(self._options),
            *macros,
        ]
        key = hashlib.sha256(repr((code, flags, _SHIM.read_text())).encode()).hexdigest()[:20]
        library = CACHE / f"{key}.so"
        if not library.exists():
            source = CACHE / f"{key}.{os.getpid()}.cc"
            source.write_text(code)
            names = re.findall(_KERNEL, _compiled([*flags, "-E", str(source)]))
            source.write_text(code + "".join(f"EMU_KERNEL({name})\n" for name in names))
            made = source.with_suffix(".so")
            _compiled(
                [
                    *flags,
                    "-fPIC",
                    "-shared",
                    "-fvisibility=hidden",
                    "-fno-gnu-unique",
                    str(source),
                    "-o",
                    str(made),
                ]
            )
            made.rename(library)
        self._library = ctypes.CDLL(str(library))

    def get_function(self, name):
        return _Function(name, getattr(self._library, f"emu_run_{name}"))


#: A kernel after the preprocessor.
_KERNEL = r'extern "C" __attribute__\(\(visibility\("default"\)\)\) void\s+(\w+)\('


def _compiled(arguments):
    """Run g++, and return what it prints."""
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileException(done.stderr[:3000])
    return done.stdout


class _Function:
    num_regs, local_size_bytes = 32, 0

    def __init__(self, name, run):
        self.name, self._run = name, run
        run.restype = ctypes.c_int
        run.argtypes = [
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_size_t,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_ulonglong,
        ]
        self.kernel = types.SimpleNamespace(ptr=name)

    def __call__(self, grid, block, args, shared_mem=0):
        global _n_launches
        values, sizes = [], []
        for a in args:
            if isinstance(a, ndarray):
                assert a._a.flags.c_contiguous
                b = np.uint64(a.data.ptr).tobytes()
            elif isinstance(a, (np.ndarray, np.generic)):
                b = a.tobytes()
            else:
                raise TypeError(f"{self.name}: {type(a)}")
            values.append(ctypes.create_string_buffer(b, len(b) + 16))
            sizes.append(len(b))
        if _Stream.recorded is not None:
            # A graph has copies of the arguments, and runs later.
            copies = [
                np.frombuffer(v, np.uint8, n).view(f"V{n}")[0] for v, n in zip(values, sizes, strict=True)
            ]
            _Stream.recorded.append((self, grid, block, copies, shared_mem))
            return
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        n_bytes = (ctypes.c_size_t * len(values))(*sizes)
        with _lock:
            _n_launches += 1
            order = _n_launches % 3
            rc = self._run(
                int(grid[0]),
                int(block[0]),
                int(shared_mem),
                pointers,
                n_bytes,
                len(values),
                order,
                _n_launches,
            )
        if rc:
            raise AssertionError(f"EMU {self.name}{grid}{block}: code {rc} for argument sizes {sizes}")


class _Device:
    id = 0
    mem_info = (4 * 2**30, 8 * 2**30)
    compute_capability = "90"

    def __init__(self, id=0):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *a):
        pass

    def synchronize(self):
        pass

    def use(self):
        pass


_device = _Device()


class _Stream:
    null = None
    ptr = 0

    def __init__(self, *a, **k):
        pass

    def synchronize(self):
        pass

    #: The launches of the graph that is recorded.
    recorded = None

    def begin_capture(self):
        _Stream.recorded = []

    def end_capture(self):
        recorded, _Stream.recorded = _Stream.recorded, None
        return _Graph(recorded)

    def record(self, event=None):
        return event or _Event()

    def wait_event(self, e):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *a):
        pass

    done = True


class _Graph:
    def __init__(self, launches):
        self._launches = launches

    def launch(self):
        for kernel, *arguments in self._launches:
            kernel(*arguments)


_stream = _Stream()


class _Event:
    def __init__(self, *a, **k):
        pass

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass

    done = True


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class CompileException(Exception):
    pass


class _Pinned:
    def __new__(cls, n):
        return (ctypes.c_ubyte * n)()


class PinnedMemoryPointer:
    pass


class _PinnedPool:
    def __init__(self, allocator=None):
        pass

    def malloc(self, n):
        return (ctypes.c_ubyte * n)()


def _memcpy2d(dst, dpitch, src, spitch, width, height, kind, stream):
    for i in range(height):
        ctypes.memmove(dst + i * dpitch, src + i * spitch, width)


class _Pool:
    def __init__(self, *a):
        pass

    def free_bytes(self):
        return 0

    def used_bytes(self):
        return 0

    def free_all_blocks(self):
        pass


def get_default_memory_pool():
    return _Pool()


def get_default_pinned_memory_pool():
    return _Pool()


runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    free=lambda p: None,
    getDeviceCount=lambda: 1,
    memGetInfo=lambda: _Device.mem_info,
    deviceGetAttribute=lambda a, d: _MULTIPROCESSORS,
    memcpyDeviceToHost=2,
    memcpy2DAsync=_memcpy2d,
    hostRegister=lambda *a: None,
    hostUnregister=lambda *a: None,
    hostAllocPortable=1,
    getDeviceProperties=lambda d: {
        "name": b"emulated",
        "totalGlobalMem": 8 * 2**30,
        "multiProcessorCount": _MULTIPROCESSORS,
    },
    runtimeGetVersion=lambda: 12090,
    driverGetVersion=lambda: 12090,
)
cuda = types.SimpleNamespace(
    runtime=runtime,
    Device=_Device,
    Stream=_Stream,
    Event=_Event,
    get_current_stream=lambda: _stream,
    get_elapsed_time=lambda a, b: 0.001,
    alloc_pinned_memory=lambda n: (ctypes.c_ubyte * n)(),
    PinnedMemoryPool=_PinnedPool,
    PinnedMemoryPointer=PinnedMemoryPointer,
    MemoryPool=_Pool,
    using_allocator=lambda a: _nothing(),
    compiler=types.SimpleNamespace(CompileException=CompileException),
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    driver=types.SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda f, b, s: 1),
    nvrtc=types.SimpleNamespace(getVersion=lambda: (12, 9), getSupportedArchs=lambda: [90]),
    is_available=lambda: True,
)
_Stream.null = _stream
__version__ = "13.0.0"
