"""The image's packages are those whose libraries the installed programs load, and Debian has them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get('PROFD_BUILD_DIR', ROOT / 'build/release'))
# What debian:12-slim has, or what brings libraries of its own along.
IN_THE_BASE = {'libc6', 'libgcc-s1', 'libstdc++6', 'zlib1g'}


def output_of(*command):
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()


class ContainerfileTest(unittest.TestCase):

    def setUp(self):
        text = (ROOT / 'deploy/Containerfile').read_text()
        stage = text.rsplit('\nFROM ', 1)[1].replace('\\\n', ' ')
        self.packages = set(
            re.search(r'--no-install-recommends +(.*?) *&&', stage).group(1).split())

    def needed(self):
        """The packages of the libraries that the programs name, without what those bring."""
        libraries = set()
        for program in ('profd', 'profd-report', 'profctl'):
            dynamic = output_of('readelf', '-d', BUILD / 'bin' / program)
            libraries |= set(re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic))
        paths = {}
        for line in output_of('ldconfig', '-p').splitlines():
            if found := re.match(r'\s+(\S+) \(.*\) => (\S+)', line):
                paths.setdefault(found[1], os.path.realpath(found[2]))
        packages = set()
        for library in libraries:
            path = paths.get(library)
            self.assertIsNotNone(path, library)
            # Debian's dpkg knows files by the folder they had before /usr was merged.
            owner = subprocess.run(['dpkg', '-S', path], capture_output=True, check=False)
            if owner.returncode != 0:
                owner = subprocess.run(['dpkg', '-S', path.removeprefix('/usr')],
                                       capture_output=True, check=True)
            packages.add(owner.stdout.decode().split(':')[0])
        return packages

    def test_the_image_has_what_the_programs_load(self):
        missing = self.needed() - IN_THE_BASE - self.packages
        self.assertFalse(missing, 'not in deploy/Containerfile: ' + ', '.join(sorted(missing)))

    def test_every_package_exists(self):
        for package in sorted(self.packages):
            known = output_of('apt-cache', 'policy', package)
            self.assertRegex(known, r'Candidate: \d', package)

    def test_what_is_copied_exists(self):
        text = (ROOT / 'deploy/Containerfile').read_text()
        for source in re.findall(r'^COPY (?!--from)(\S+) ', text, re.MULTILINE):
            self.assertTrue((ROOT / source).exists(), source)


if __name__ == '__main__':
    for program in ('dpkg', 'apt-cache', 'readelf', 'ldconfig'):
        if shutil.which(program) is None:
            print(f'SKIP: {program} is not installed')
            sys.exit(77)
    if 'VERSION_ID="12"' not in pathlib.Path('/etc/os-release').read_text():
        print('SKIP: the image is of Debian 12, and this is another system')
        sys.exit(77)
    unittest.main(verbosity=2)
