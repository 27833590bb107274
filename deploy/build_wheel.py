#!/usr/bin/env python3
"""Makes the wheel of the Python package: the library inside, installed by pip without a compiler.

    deploy/build_wheel.py --library build/release/lib/libprofd_client.so \\
        --api build/release/lib/profd_api.binpb --output build/release/wheel

It needs nothing but Python. The tag is what the library's own ELF tables allow: it must need
libc only, and nothing of it that is newer than OLDEST_GLIBC, which is what the library promises. The
same input makes the same wheel, byte for byte. The build's target `profd_wheel` runs this.

Errors: it prints what is wrong with the library and exits with 1; it leaves no wheel then.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import struct
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "client_lib" / "python" / "profd"

OLDEST_GLIBC = (2, 28)
# What every system with glibc has; the loader under each machine's name.
ALLOWED_NEEDED = re.compile(r"(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|"
                            r"ld-linux-[\w-]+\.so\.\d)\Z")
MACHINES = {62: "x86_64", 183: "aarch64"}

# Run by site at every start of the interpreter; whatever is wrong with it, the job is not told.
PTH = ('import sys; exec("try:\\n import _profd_hook\\n _profd_hook.install()'
       '\\nexcept Exception:\\n pass")\n')

METADATA = """\
Metadata-Version: 2.1
Name: profd
Version: {version}
Summary: Tells the node's profiler what a training process does; PyTorch without a line of code
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Provides-Extra: client
Requires-Dist: grpcio ; extra == 'client'
Requires-Dist: protobuf >=3.20 ; extra == 'client'
Provides-Extra: pandas
Requires-Dist: pandas ; extra == 'pandas'
Description-Content-Type: text/markdown

{description}"""


class UnfitLibrary(Exception):
    """What keeps a library out of a wheel."""


class Elf:
    """The dynamic tables of a 64-bit little-endian ELF file."""

    _PT_LOAD, _PT_DYNAMIC = 1, 2
    _DT_NEEDED, _DT_STRTAB, _DT_VERNEED, _DT_VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise UnfitLibrary("it is not a 64-bit little-endian ELF file")
        self._data = data
        self.machine, = struct.unpack_from("<H", data, 18)
        table, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        # Of each: type, offset, address, size in the file.
        headers = [struct.unpack_from("<I4xQQ8xQ", data, table + i * size) for i in range(count)]
        self._loads = [header[1:] for header in headers if header[0] == self._PT_LOAD]
        self._dynamic = []
        for kind, offset, _, length in headers:
            if kind == self._PT_DYNAMIC:
                self._dynamic = list(struct.iter_unpack("<QQ", data[offset:offset + length]))

    def needed(self):
        """The libraries that it loads."""
        return [self._string(value) for tag, value in self._dynamic if tag == self._DT_NEEDED]

    def needed_versions(self):
        """The versions of symbols that it needs: "GLIBC_2.14"."""
        where = self._offset(self._value(self._DT_VERNEED, 0))
        for _ in range(self._value(self._DT_VERNEEDNUM, 0)):
            _, count, _, first, following = struct.unpack_from("<HHIII", self._data, where)
            entry = where + first
            for _ in range(count):
                _, _, _, name, after = struct.unpack_from("<IHHII", self._data, entry)
                yield self._string(name)
                entry += after
            where += following

    def _value(self, wanted, default):
        return next((value for tag, value in self._dynamic if tag == wanted), default)

    def _offset(self, address):
        for offset, start, size in self._loads:
            if start <= address < start + size:
                return offset + address - start
        raise UnfitLibrary("its dynamic section points outside of it")

    def _string(self, index):
        start = self._offset(self._value(self._DT_STRTAB, 0)) + index
        return self._data[start:self._data.index(b"\0", start)].decode()


def platform_tag(data):
    """The tag of a wheel with this library. Raises UnfitLibrary."""
    try:
        elf = Elf(data)
        needed, versions = elf.needed(), list(elf.needed_versions())
    except (struct.error, ValueError) as error:
        raise UnfitLibrary("its tables are damaged: %s" % error) from error
    if elf.machine not in MACHINES:
        raise UnfitLibrary("its machine, %d, has no wheels" % elf.machine)
    if "libc.so.6" not in needed or not versions:
        raise UnfitLibrary("it does not say what it needs")
    for name in needed:
        if not ALLOWED_NEEDED.match(name):
            raise UnfitLibrary("it needs %s, which not every system has" % name)
    for version in versions:
        number = re.match(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\Z", version)
        if number is None or (int(number[1]), int(number[2])) > OLDEST_GLIBC:
            raise UnfitLibrary("it needs %s; it promises to load on glibc %d.%d" %
                               (version, *OLDEST_GLIBC))
    return "manylinux_%d_%d_%s" % (*OLDEST_GLIBC, MACHINES[elf.machine])


def wheel_files(library, api, version, tag):
    """Name -> content, of all but RECORD."""
    files = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            files["profd/" + path.relative_to(PACKAGE).as_posix()] = path.read_bytes()
    # Where profd.pth finds it without importing the package.
    files["_profd_hook.py"] = files["profd/_inject/_profd_hook.py"]
    files["profd.pth"] = PTH.encode()
    files["profd/libprofd_client.so"] = library
    files["profd/profd_api.binpb"] = api
    info = "profd-%s.dist-info/" % version
    description = (ROOT / "client_lib" / "python" / "README.md").read_text()
    files[info + "METADATA"] = METADATA.format(version=version, description=description).encode()
    files[info + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: profd\nRoot-Is-Purelib: false\n"
                             "Tag: %s\n" % tag).encode()
    files[info + "LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return files, info + "RECORD"


def record_of(files, record):
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (name, digest, len(content)))
    return "".join(lines) + record + ",,\n"


def write_wheel(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)


def package_version():
    text = (PACKAGE / "__init__.py").read_text()
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--api", required=True, type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    library = arguments.library.read_bytes()
    try:
        tag = "py3-none-" + platform_tag(library)
    except UnfitLibrary as error:
        print("%s: %s" % (arguments.library, error), file=sys.stderr)
        return 1
    version = package_version()
    files, record = wheel_files(library, arguments.api.read_bytes(), version, tag)
    files[record] = record_of(files, record).encode()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / ("profd-%s-%s.whl" % (version, tag))
    write_wheel(path, files)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
