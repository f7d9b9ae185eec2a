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
from pathlib import Path
from types import SimpleNamespace

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
        self.ptr = _libc.malloc(n or 16)
        ctypes.memset(self.ptr, 0xCD, n)

    def __del__(self):
        _libc.free(self.ptr)


class _Memory:
    """MemoryPointer."""

    def __init__(self, values):
        self._values, self.ptr = values, values.ctypes.data if values.size else 0

    def _check(self, n):
        base = self._values
        while isinstance(base.base, np.ndarray):
            base = base.base
        room = base.ctypes.data + base.nbytes - self._values.ctypes.data
        assert 0 <= n <= room, (n, room)

    def memset_async(self, value, n):
        self._check(n)
        if n:
            ctypes.memset(self.ptr, value, n)

    def copy_from_host_async(self, ptr, n):
        self._check(n)
        ctypes.memmove(self.ptr, ptr, n)

    def copy_from_device_async(self, other, n, stream=None):
        self._check(n)
        ctypes.memmove(self.ptr, other.ptr, n)


def _wrap(x):
    if isinstance(x, np.ndarray):
        return ndarray(x)
    return asarray(x) if isinstance(x, np.generic) else x


def _raw(x):
    if isinstance(x, tuple):
        return tuple(map(_raw, x))
    return x._a if isinstance(x, ndarray) else x


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    device = SimpleNamespace(id=0)

    def __init__(self, values):
        self._a = values

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        assert not any(isinstance(x, np.ndarray) and x.ndim for x in inputs)
        return _wrap(getattr(ufunc, method)(*map(_raw, inputs), **options))

    def __getattr__(self, name):
        """Return an attribute of the array of NumPy, but none by which NumPy would convert this one."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._a, name)
        return (lambda *args, **options: _wrap(found(*args, **options))) if callable(found) else found

    @property
    def data(self):
        return _Memory(self._a)

    def __len__(self):
        return len(self._a)

    def __int__(self):
        return int(self._a)

    def __float__(self):
        return float(self._a)

    def __bool__(self):
        return bool(self._a)

    def __getitem__(self, k):
        return _wrap(self._a[_raw(k)])

    def __setitem__(self, k, v):
        assert not isinstance(v, np.ndarray) or v.ndim == 0
        self._a[_raw(k)] = _raw(v)

    def get(self, stream=None, out=None, blocking=True):
        if out is None:
            return np.array(self._a, order="C")
        assert (out.shape, out.dtype) == (self.shape, self.dtype)
        assert out.flags.c_contiguous
        out[...] = self._a
        return out

    def set(self, arr, stream=None):
        assert (arr.shape, arr.dtype) == (self.shape, self.dtype)
        self._a[...] = arr


def empty(shape, dtype=float):
    dtype = np.dtype(dtype)
    shape = tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if n > 8 * 2**30:
        raise cuda.memory.OutOfMemoryError("too much")
    block = _Block(n)
    buffer = (ctypes.c_ubyte * max(n, 1)).from_address(block.ptr)
    buffer._block = block  # kept by the array's base
    return ndarray(
        np.frombuffer(buffer, np.uint8, n).view(dtype).reshape(shape) if n else np.empty(shape, dtype)
    )


def zeros(shape, dtype=float):
    made = empty(shape, dtype)
    made.fill(0)
    return made


def asarray(x, dtype=None):
    if isinstance(x, ndarray):
        return x
    values = np.asarray(x, dtype)
    made = empty(values.shape, values.dtype)
    made.set(values)
    return made


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
    (
        r'asm volatile\("red\.relaxed\.gpu\.global\.min\.noftz\.v(\d)\.bf16x2.*?: "l"\((\w+)\), "r"\((\w+)\[0\]\)'
        r'.*?: "memory"\);',
        r"for (int i = 0; i < \1; ++i) \2[i] = __vminu2(\2[i], \3[i]);",
    ),
    (r'asm volatile\("fence[^;]*;" : : : "memory"\);', ""),
    (r'asm volatile\("cp\.async\.ca\.shared\.global \[%0\], \[%1\], 4;" : : [^;]*;', ""),
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
    def __init__(self, code, options, enable_cooperative_groups=False, **_):
        self._code, self._options, self._is_cooperative = code, options, enable_cooperative_groups

    def compile(self, log_stream=None):
        macros = [o for o in self._options if o.startswith("-D") and not o.startswith("-DSSSP_DIGEST")]
        code = f'#include "{_SHIM}"\n{_translated(self._code)}\n'
        flags = [*_CPLUSPLUS, "-fno-strict-aliasing", *_headers(self._options), *macros]
        key = hashlib.sha256(repr((code, flags, _SHIM.read_text())).encode()).hexdigest()[:20]
        library = CACHE / f"{key}.so"
        if not library.exists():
            source = CACHE / f"{key}.{os.getpid()}.cc"
            source.write_text(code)
            names = re.findall(_KERNEL, _compiled([*flags, "-E", str(source)]))
            source.write_text(code + "".join(f"EMU_KERNEL({name})\n" for name in names))
            made = source.with_suffix(".so")
            _compiled([*flags, *_LIBRARY, str(source), "-o", str(made)])
            made.rename(library)
        self._library = ctypes.CDLL(str(library))

    def get_function(self, name):
        return _Function(name, getattr(self._library, f"emu_run_{name}"), self._is_cooperative)


class _OneBlock(int):
    """How many blocks of a cooperative kernel fit a multiprocessor: all multiprocessors have one block together."""

    def __mul__(self, n_multiprocessors):
        return 1


_CPLUSPLUS = ["-x", "c++", "-std=c++17", "-O1", "-w", "-fpermissive", "-ffp-contract=off"]
_LIBRARY = ["-fPIC", "-shared", "-fvisibility=hidden", "-fno-gnu-unique"]
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

    def __init__(self, name, run, is_cooperative):
        self.name, self._run = name, run
        sizes, pointers = ctypes.c_size_t, ctypes.c_void_p
        run.restype = ctypes.c_int
        run.argtypes = [
            ctypes.c_uint,
            ctypes.c_uint,
            sizes,
            pointers,
            pointers,
            sizes,
            ctypes.c_int,
            ctypes.c_ulonglong,
        ]
        # Blocks run one after the other, so those that wait for each other would wait for ever.
        self.kernel = SimpleNamespace(ptr=_OneBlock(1) if is_cooperative else 1)

    def __call__(self, grid, block, args, shared_mem=0):
        global _n_launches
        values, sizes = [], []
        for a in args:
            if isinstance(a, ndarray):
                assert a.flags.c_contiguous
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
            rc = self._run(*grid, *block, shared_mem, pointers, n_bytes, len(values), order, _n_launches)
        if rc:
            raise AssertionError(f"EMU {self.name}{grid}{block}: code {rc} for argument sizes {sizes}")


class _Device(contextlib.nullcontext):
    id = 0
    compute_capability = "90"


class _Event:
    def __init__(self, **_):
        pass

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass


class _Stream(contextlib.nullcontext):
    ptr = 0
    #: The launches of the graph that is recorded.
    recorded = None

    def __init__(self, non_blocking=False):
        super().__init__()

    def synchronize(self):
        pass

    def begin_capture(self):
        _Stream.recorded = []

    def end_capture(self):
        recorded, _Stream.recorded = _Stream.recorded, None
        return _Graph(recorded)

    def record(self, event=None):
        return event or _Event()

    def wait_event(self, event):
        pass


class _Graph:
    def __init__(self, launches):
        self._launches = launches

    def launch(self):
        for kernel, *arguments in self._launches:
            kernel(*arguments)


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class CompileException(Exception):
    pass


def _pinned(n):
    return (ctypes.c_ubyte * n)()


def _memcpy2d(dst, dpitch, src, spitch, width, height, kind, stream):
    for i in range(height):
        ctypes.memmove(dst + i * dpitch, src + i * spitch, width)


def get_default_memory_pool():
    return SimpleNamespace(free_bytes=lambda: 0)


cuda = SimpleNamespace(
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        free=lambda p: None,
        getDeviceCount=lambda: 1,
        memGetInfo=lambda: (4 * 2**30, 8 * 2**30),
        deviceGetAttribute=lambda a, d: _MULTIPROCESSORS,
        memcpyDeviceToHost=2,
        memcpy2DAsync=_memcpy2d,
    ),
    Device=_Device,
    Stream=_Stream,
    Event=_Event,
    get_current_stream=_Stream,
    get_elapsed_time=lambda a, b: 0.001,
    alloc_pinned_memory=_pinned,
    PinnedMemoryPool=lambda allocator: SimpleNamespace(malloc=_pinned),
    compiler=SimpleNamespace(CompileException=CompileException),
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    driver=SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda f, b, s: f),
)
