"""Makes the corpus of the fuzzer `nsys_import`: python3 tests/fuzz/make_nsys_corpus.py"""

import gzip
import pathlib
import sqlite3
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "nsys_import"
GLOBAL_PID = 281476838981632

# The smallest file that is imported.
KERNEL = f"""
    PRAGMA page_size = 512;
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'add(int)');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId,
      correlationId, globalPid, demangledName);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (20, 50, 0, 1, 7, 1, {GLOBAL_PID}, 1);
"""
# Views and generated columns in the places of tables and columns; two processes.
ODD = f"""
    PRAGMA page_size = 512;
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, deviceId, globalPid,
      end INTEGER GENERATED ALWAYS AS (start + 1));
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, deviceId, globalPid) VALUES
      (20, 0, {GLOBAL_PID}), (-9223372036854775808, 'x', {GLOBAL_PID + (1 << 24)}), (1, 2, NULL);
    CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 59 AS eventType;
"""


def database(sql):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.sqlite"
        connection = sqlite3.connect(path)
        connection.executescript(sql)
        connection.close()
        return path.read_bytes()


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    kernel = database(KERNEL)
    # The first byte is a switch of the fuzzer: if it is even, such as a space, the rest is a file.
    inputs = {
        "well_formed": b"\x01\n",
        "a_value_of_the_header": bytes([1, 0, 0, 18, 2, 0, 0, 56, 2]),
        "kernel.sqlite": b" " + kernel,
        "kernel.sqlite.gz": b" " + gzip.compress(kernel, mtime=0),
        "cut_off.sqlite": b" " + kernel[:700],
        "odd.sqlite": b" " + database(ODD),
    }
    for name, content in inputs.items():
        (CORPUS / name).write_bytes(content)


if __name__ == "__main__":
    main()
