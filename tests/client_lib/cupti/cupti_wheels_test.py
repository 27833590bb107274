"""Holds client_lib/cupti/cupti_abi.h against NVIDIA's own headers of each CUPTI from 11.8 to 13.5.

The headers come from the packages that pip downloads once, to PROFD_CUPTI_WHEELS (default: a folder
in the user's cache). Nothing of them is kept in the repository.

For each pair of fields that cupti_abi_test.cc names, in the struct that this release uses for the
kind: the offset is the same; or the release has no such field, and our field then lies beyond its
struct, so that it is never read. Sizes are compared with the stand-in of that release, where there
is one.

Skips a release whose packages cannot be had, and says which.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ.get("PROFD_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD_DIR", SOURCE / "build/release"))
CACHE = pathlib.Path(os.environ.get("PROFD_CUPTI_WHEELS") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) /
                     "profd/cupti_wheels")
# Of all downloads together: what has not come by then is skipped.
DOWNLOADS_TIMEOUT_S = 120
# Of one. An index that does not answer once is not asked again.
DOWNLOAD_TIMEOUT_S = 30

# Release -> packages of its CUPTI, and of a cuda.h that fits.
RELEASES = {
    "11.8": ("nvidia-cuda-cupti-cu11==11.8.87", "nvidia-cuda-runtime-cu11==11.8.89"),
    "12.1": ("nvidia-cuda-cupti-cu12==12.1.105", "nvidia-cuda-runtime-cu12==12.1.105"),
    "12.4": ("nvidia-cuda-cupti-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.4.127"),
    "12.6": ("nvidia-cuda-cupti-cu12==12.6.80", "nvidia-cuda-runtime-cu12==12.6.77"),
    "12.8": ("nvidia-cuda-cupti-cu12==12.8.90", "nvidia-cuda-runtime-cu12==12.8.90"),
    "12.9": ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79"),
    "13.0": ("nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.0.96"),
    "13.1": ("nvidia-cuda-cupti==13.1.115", "nvidia-cuda-runtime==13.1.80"),
    "13.2": ("nvidia-cuda-cupti==13.2.86", "nvidia-cuda-runtime==13.2.86"),
    "13.3": ("nvidia-cuda-cupti==13.3.75", "nvidia-cuda-runtime==13.3.29"),
    "13.4": ("nvidia-cuda-cupti==13.4.92", "nvidia-cuda-runtime==13.4.92"),
    "13.5": ("nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37"),
}
# Kinds by the family of their structs. CUPTI 13.1 and later are compared by offsets only: the
# stand-in of 13.2 has guessed sizes.
KINDS = {
    "CUpti_ActivityMemcpy": 1, "CUpti_ActivityMemset": 2, "CUpti_ActivityKernel": 10,
    "CUpti_ActivityAPI": 5, "CUpti_ActivityDevice": 8, "CUpti_ActivityContext": 9,
    "CUpti_ActivityOverhead": 17, "CUpti_ActivityMemcpyPtoP": 22, "CUpti_ActivityCudaEvent": 36,
    "CUpti_ActivityStream": 37, "CUpti_ActivitySynchronization": 38, "CUpti_ActivityMemory": 49,
    "CUpti_ActivityMemoryPool": 50, "CUpti_ActivityGraphTrace": 51,
    "CUpti_ActivityMemDecompress": 54, "CUpti_ActivityGraphHostNode": 56,
    "CUpti_ActivityHostLaunch": 58,
}
# Padding before 13.0: not read there (RecordDecoder::copies_tell_launcher_).
READ_SINCE_13_0 = ("MemcpyRecord.is_device_launched", "MemsetRecord.is_device_launched")
STANDINS = ("11.8", "12.4", "12.9", "13.0")

PAIR = re.compile(r"SAME_FIELD\(\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+)\s*\)")
STRUCT = re.compile(r"\}\s*(CUpti_Activity\w+)\s*;")

PROBE = """
#include <cstddef>
#include <cstdio>
#include <cupti_activity.h>
#include "client_lib/cupti/cupti_abi.h"
using namespace profd::client::cupti;
#define COMPARE(ours, our_field, theirs, their_field) Compare( \\
    #ours "." #our_field, offsetof(ours, our_field), sizeof(theirs), []<typename T>(T*) -> long { \\
      if constexpr (requires(T t) { t.their_field; }) return offsetof(T, their_field); \\
      else return -1L; }(static_cast<theirs*>(nullptr)))
static void Compare(const char* name, std::size_t ours, std::size_t size, long theirs) {
  std::printf("field %s %zu %ld %zu\\n", name, ours, theirs, size);
}
int main() {
@COMPARISONS@
@SIZES@
}
"""


def family_of(struct):
    return re.sub(r"\d+$", "", struct)


def field_pairs():
    text = (SOURCE / "tests/client_lib/cupti/cupti_abi_test.cc").read_text()
    text = text[text.index("SAME_SIZE(KernelRecord"):]
    return [match.groups() for match in PAIR.finditer(text)]


give_up = time.monotonic() + DOWNLOADS_TIMEOUT_S


def download(package):
    """The folder with the package's headers; None: it cannot be had."""
    global give_up
    folder = CACHE / package.replace("==", "-")
    if not folder.is_dir():
        if time.monotonic() >= give_up:
            return None
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries",
                       "1", "--only-binary", ":all:", "--dest", temporary, package]
            try:
                subprocess.run(command, check=True, capture_output=True,
                               timeout=min(DOWNLOAD_TIMEOUT_S, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                give_up = time.monotonic()
                return None
            except (subprocess.SubprocessError, OSError):
                return None
            wheel = next(pathlib.Path(temporary).glob("*.whl"))
            unpacked = pathlib.Path(temporary) / "unpacked"
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".h"):
                        archive.extract(name, unpacked)
            unpacked.rename(folder)
    return folder


def header_folder(folder, name):
    return next(iter(sorted(folder.rglob(name)))).parent


def newest_structs(header):
    """Family -> the struct of the highest number: the one that this release writes."""
    newest = {}
    for struct in STRUCT.findall(header.read_text(errors="replace")):
        family = family_of(struct)
        number = int(struct[len(family):] or 1)
        if family not in newest or number > newest[family][0]:
            newest[family] = (number, struct)
    return {family: struct for family, (_, struct) in newest.items()}


def standin_size(release, kind):
    """What the stand-in's cuptiActivityGetNextRecord() strides for `kind`."""
    library = ctypes.CDLL(str(next((BUILD / "lib/cupti_standin" / release).glob("libcupti.so*"))))
    buffer = (ctypes.c_uint64 * 512)(*([kind] * 512))
    record = ctypes.c_void_p()
    for _ in range(2):
        result = library.cuptiActivityGetNextRecord(buffer, ctypes.c_size_t(4096),
                                                    ctypes.byref(record))
        if result != 0:
            raise AssertionError(f"kind {kind}: {result}")
    return record.value - ctypes.addressof(buffer)


class WheelsTest(unittest.TestCase):

    def probe(self, release):
        folders = [download(package) for package in RELEASES[release]]
        if None in folders:
            self.skipTest(f"CUPTI {release}: pip cannot download {', '.join(RELEASES[release])}")
        cupti = header_folder(folders[0], "cupti_activity.h")
        cuda = header_folder(folders[1], "cuda.h")
        newest = newest_structs(cupti / "cupti_activity.h")
        comparisons, sizes = [], []
        for ours, our_field, theirs, their_field in field_pairs():
            struct = newest.get(family_of(theirs))
            if struct is not None:
                comparisons.append(f"  COMPARE({ours}, {our_field}, {struct}, {their_field});")
        for family, kind in KINDS.items():
            if family in newest:
                sizes.append(f'  std::printf("size {kind} %zu\\n", sizeof({newest[family]}));')
        with tempfile.TemporaryDirectory() as temporary:
            # What the headers of the runtime include, and no record needs.
            pathlib.Path(temporary, "builtin_types.h").touch()
            source = pathlib.Path(temporary, "probe.cc")
            source.write_text(PROBE.replace("@COMPARISONS@", "\n".join(comparisons))
                              .replace("@SIZES@", "\n".join(sizes)))
            program = pathlib.Path(temporary, "probe")
            compiled = subprocess.run(
                ["c++", "-std=c++20", "-w", "-O0", f"-I{temporary}", f"-I{SOURCE}",
                 f"-isystem{cupti}", f"-isystem{cuda}", str(source), "-o", str(program)],
                capture_output=True, text=True)
            self.assertEqual(compiled.returncode, 0, compiled.stderr[-4000:])
            return subprocess.run([str(program)], check=True, capture_output=True,
                                  text=True).stdout

    def check(self, release):
        lines = [line.split() for line in self.probe(release).splitlines()]
        fields = [(name, int(ours), int(theirs), int(size))
                  for what, name, *numbers in lines if what == "field"
                  for ours, theirs, size in [numbers]]
        same = [field for field in fields if field[2] == field[1]]
        wrong = [field for field in fields
                 if field[2] != field[1] and not (field[2] == -1 and field[1] >= field[3]) and
                 not (field[2] == -1 and field[0] in READ_SINCE_13_0 and int(release[:2]) < 13)]
        self.assertEqual(wrong, [], "name, our offset, theirs (-1: none), size of their struct")
        self.assertGreater(len(same), 100)
        sizes = {int(line[1]): int(line[2]) for line in lines if line[0] == "size"}
        self.assertGreater(len(sizes), 10)
        if release in STANDINS:
            self.assertEqual({kind: standin_size(release, kind) for kind in sizes}, sizes)
        print(f"CUPTI {release}: {len(same)} fields at our offsets, "
              f"{len(fields) - len(same)} not in its structs")


for each in RELEASES:
    setattr(WheelsTest, f"test_{each.replace('.', '_')}",
            lambda self, release=each: self.check(release))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=1).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    for test, reason in outcome.skipped:
        print(f"SKIP: {reason}")
    sys.exit(77 if len(outcome.skipped) == outcome.testsRun else 0)
