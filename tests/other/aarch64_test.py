"""The client library on aarch64: cross-built with Debian's compiler, and run by qemu-user.

The short form builds the library and runs unit tests of it, and captures of the simulated GPU with
everything in one process. PROFD_LONG_AARCH64=1 runs all tests of gpu_capture_test.cc, with each
version of CUPTI that the stand-in has.

qemu 7.2 has no process_vm_readv() on aarch64, so kernels' names are read as in a container that
forbids it; and no seccomp filters.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', SOURCE / 'build/release')) / 'aarch64'
GOOGLETEST = pathlib.Path('/usr/src/googletest/googletest')
TRIPLE = 'aarch64-linux-gnu'
QEMU = ['qemu-aarch64', '-L', f'/usr/{TRIPLE}']
IS_LONG = bool(os.environ.get('PROFD_LONG_AARCH64'))
STANDINS = ('11.2', '11.8', '12.4', '12.9', '13.0', '13.2', 'future') if IS_LONG else ('13.0',)

UNIT_TESTS = ('core/safe_memory_test.cc', 'cupti/gpu_clock_test.cc', 'cupti/launch_tracker_test.cc',
              'cupti/record_decoder_test.cc', 'cupti/buffer_pool_test.cc')
CAPTURE_TESTS = ('cupti/gpu_capture_test.cc', 'cupti/gpu_process.cc', 'child.cc', '../fakes/fake_daemon.cc')
SHORT_CAPTURES = '*KernelsAreStoredAsTheyWere/13_0:GpuModeTest.LightHas*:GpuModeTest.FullHas*'


def missing():
    """What the test needs and this machine lacks."""
    if shutil.which(f'{TRIPLE}-g++') is None:
        return f'no {TRIPLE}-g++ (Debian: g++-{TRIPLE})'
    if shutil.which(QEMU[0]) is None:
        return f'no {QEMU[0]} (Debian: qemu-user)'
    if not (GOOGLETEST / 'src/gtest-all.cc').exists():
        return f'no sources of googletest in {GOOGLETEST.parent} (Debian: googletest)'
    return ''


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f'{command}: {done.returncode}\n{(done.stdout + done.stderr)[-6000:]}')
    return done.stdout


def launcher():
    return ['ccache'] if shutil.which('ccache') else []


def build_library():
    run(['cmake', '-S', SOURCE, '-B', BUILD, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release',
         '-DCMAKE_SYSTEM_NAME=Linux', '-DCMAKE_SYSTEM_PROCESSOR=aarch64',
         f'-DCMAKE_C_COMPILER={TRIPLE}-gcc', f'-DCMAKE_CXX_COMPILER={TRIPLE}-g++',
         '-DPROFD_BUILD_DAEMON=OFF', '-DPROFD_BUILD_TESTS=OFF'])
    run(['cmake', '--build', BUILD, '--target', 'profd_client', 'profd_preload',
         'profd_fake_libcuda', *(f'profd_cupti_standin_{version}' for version in STANDINS)])


def build_test(name, sources, linked):
    """Compiles tests of ours with googletest's own sources, and links them with `linked`."""
    program = BUILD / 'tests' / name
    made = BUILD / 'tests' / f'{name}.objects'
    made.mkdir(parents=True, exist_ok=True)
    flags = ['-std=c++20', '-O1', '-w', '-pthread', f'-I{SOURCE}', f'-I{SOURCE}/client_lib/include',
             f'-isystem{GOOGLETEST}', f'-isystem{GOOGLETEST}/include',
             f'-isystem{GOOGLETEST.parent}/googlemock/include',
             f'-DPROFD_TEST_BUILD_DIR="{BUILD}"', f'-DPROFD_SOURCE_DIR="{SOURCE}"']
    files = [*(SOURCE / 'tests/client_lib' / source for source in sources), GOOGLETEST / 'src/gtest-all.cc',
             GOOGLETEST / 'src/gtest_main.cc']
    objects, compilers = [], []
    for file in files:
        target = made / f'{file.stem}.o'
        objects.append(target)
        compilers.append(subprocess.Popen([*launcher(), f'{TRIPLE}-g++', *flags, '-c', file, '-o',
                                           target], stderr=subprocess.PIPE, text=True))
        if len(compilers) % 2 == 0:
            compilers[-2].wait()
    for compiler in compilers:
        error = compiler.communicate()[1]
        if compiler.returncode != 0:
            raise AssertionError(error[-6000:])
    run([f'{TRIPLE}-g++', '-pthread', '-o', program, *objects, *linked, '-ldl'])
    return program


def objects_of(*folders):
    return [made for folder in folders for made in
            sorted((BUILD / f'client_lib/{folder}/CMakeFiles').glob(f'profd_client_{folder}.dir/*.o'))]


class Aarch64Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build_library()

    def run_tests(self, program, chosen='*'):
        done = subprocess.run([*QEMU, program, f'--gtest_filter={chosen}'], capture_output=True,
                              text=True, timeout=900, env={**os.environ, 'PROFD_BUILD_DIR': BUILD})
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-6000:])
        self.assertRegex(done.stdout, r'\[  PASSED  \] [1-9]')

    def test_the_library_is_for_aarch64_and_needs_only_libc(self):
        library = next((BUILD / 'lib').glob('libprofd_client.so.*'))
        header = run([f'{TRIPLE}-readelf', '-h', library])
        self.assertIn('AArch64', header)
        needed = [line.split('[')[1].split(']')[0] for line in
                  run([f'{TRIPLE}-readelf', '-d', library]).splitlines() if '(NEEDED)' in line]
        self.assertLessEqual(set(needed), {'libc.so.6', 'libpthread.so.0', 'libdl.so.2',
                                           'ld-linux-aarch64.so.1'})

    def test_units(self):
        objects = objects_of('core', 'cupti', 'nvtx', 'python_stack', 'torch')
        self.run_tests(build_test('units', UNIT_TESTS, objects))

    def test_captures(self):
        library = next((BUILD / 'lib').glob('libprofd_client.so.*'))
        program = build_test('captures', CAPTURE_TESTS, [library, f'-Wl,-rpath,{BUILD}/lib'])
        self.run_tests(program, '*' if IS_LONG else SHORT_CAPTURES)


if __name__ == '__main__':
    if reason := missing():
        print(f'SKIP: {reason}')
        sys.exit(77)
    unittest.main(verbosity=2)
