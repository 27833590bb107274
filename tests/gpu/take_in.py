"""Turns the results of run_on_gpu.sh into fixtures, and names what of the stand-in they refute.

    take_in.py RESULTS [--into FOLDER] [--replay PROGRAM] [--simulated]

RESULTS is the folder that run_on_gpu.sh filled. Each dump of CUPTI's buffers becomes NAME.dump.gz
with NAME.json, what replay_dump makes of it; dumps that do not decode as recorded are refused. Captures
become NAME.profd; those of the phase "causes" NAME.profd.xz, with the NAME.json that judges them. All
fixtures together take at most 5 MB: what no longer fits is named. replay_test.py decodes every dump in
the folder (default: fixtures, next to this script), and causes_test.py judges every cause.

Results of the simulated GPU are refused without --simulated. Exits with 1 if a dump was refused.
"""

import argparse
import gzip
import json
import lzma
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import gpu_assumptions

HERE = pathlib.Path(__file__).resolve().parent
MOST_BYTES = 5_000_000


def members(archive):
    """(file name, content) of the regular files in a .tar.gz, whatever their folders are called."""
    if not archive.exists():
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                yield pathlib.PurePosixPath(member.name).name, tar.extractfile(member).read()


def replayed(program, content):
    """What replay_dump prints; None: the dump does not decode as it was recorded."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        done = subprocess.run([program, file.name], capture_output=True, text=True)
    if done.returncode != 0:
        print(f'  {(done.stdout or done.stderr).strip()}')
        return None
    return json.loads(done.stdout)


class Fixtures:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.bytes = sum(file.stat().st_size for file in folder.iterdir())

    def add(self, name, content):
        if self.bytes + len(content) > MOST_BYTES:
            print(f'left out, too large: {name} ({len(content)} bytes)')
            return False
        (self.folder / name).write_bytes(content)
        self.bytes += len(content)
        print(f'kept: {name} ({len(content)} bytes)')
        return True


def take_dumps(results, fixtures, program):
    """Returns how many were refused."""
    refused = 0
    for name, content in sorted(members(results / 'dumps.tar.gz')):
        # LABEL-MODE.PID.N
        stem, _, number = name.rsplit('.', 2)
        found = replayed(program, content)
        if found is None:
            print(f'refused, decodes differently: {name}')
            refused += 1
            continue
        stem = f'{stem}-{number}'
        if fixtures.add(f'{stem}.dump.gz', gzip.compress(content, 9, mtime=0)):
            fixtures.add(f'{stem}.json', (json.dumps(found, indent=1) + '\n').encode())
    return refused


def print_assumptions(facts):
    refuted = 0
    for assumption, verdicts in gpu_assumptions.judged(facts):
        versions = sorted(str(version) for version, held in verdicts.items() if not held)
        if not verdicts:
            print(f'unknown: {assumption.id}: {assumption.text}')
        elif versions:
            refuted += 1
            print(f"refuted by {', '.join(versions)}: {assumption.text}. "
                  f'Change the stand-in: {assumption.standin}')
    print(f'{refuted} of {len(gpu_assumptions.ASSUMPTIONS)} assumptions are refuted')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('results', type=pathlib.Path)
    parser.add_argument('--into', type=pathlib.Path, default=HERE / 'fixtures')
    parser.add_argument('--replay', type=pathlib.Path,
                        default=HERE.parents[1] / 'build/release/tests/bin/replay_dump')
    parser.add_argument('--simulated', action='store_true')
    options = parser.parse_args()
    facts = gpu_assumptions.read(options.results / 'facts.jsonl')
    if gpu_assumptions.is_simulated(facts) and not options.simulated:
        sys.exit('take_in.py: these results are of the simulated GPU; --simulated takes them in')
    fixtures = Fixtures(options.into)
    refused = take_dumps(options.results, fixtures, options.replay)
    for name, content in sorted(members(options.results / 'captures.tar.gz')):
        if name.startswith('cause-') and name.endswith('.profd'):
            fixtures.add(f'{name}.xz', lzma.compress(content, preset=9))
        else:
            fixtures.add(name, content)
    print_assumptions(facts)
    return 1 if refused else 0


if __name__ == '__main__':
    sys.exit(main())
