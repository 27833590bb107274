"""A Python program as training programs are: threads, children, asyncio, files.

    python_program.py FOLDER threads|asyncio

Prints the same with and without the client library. Waits for FOLDER/go after it created
FOLDER/ready.
"""

import os
import subprocess
import sys
import threading
import time

FOLDER, CASE = sys.argv[1:3]


def get_ready():
    with open(os.path.join(FOLDER, 'ready'), 'w'):
        pass
    while not os.path.exists(os.path.join(FOLDER, 'go')):
        time.sleep(0.002)


def threads():
    sums = [0] * 4

    def count(i):
        for k in range(20000):
            sums[i] = (sums[i] * 31 + k) % 1000003
    workers = [threading.Thread(target=count, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sums)
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    print('child', os.waitpid(pid, 0)[1])
    print(subprocess.run([sys.executable, '-c', 'print(6 * 7)'], stdout=subprocess.PIPE).stdout)
    os.closerange(3, 256)
    with open(os.path.join(FOLDER, 'checkpoint'), 'wb') as file:
        file.write(b'first part\n')
        time.sleep(0.05)
        file.write(b'second part\n')
    with open(os.path.join(FOLDER, 'checkpoint'), 'rb') as file:
        print(file.read())


def with_asyncio():
    import asyncio

    async def echo(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async def ask(path, text):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(text)
        answer = await reader.readline()
        writer.close()
        return answer

    async def serve():
        path = os.path.join(FOLDER, 'sock')
        server = await asyncio.start_unix_server(echo, path)
        for i in range(5):
            print(await asyncio.gather(*(ask(path, b'%d x\n' % k) for k in range(i, i + 5))))
        child = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(1)',
                                                     stdout=asyncio.subprocess.PIPE)
        print(await child.communicate())
        server.close()
    asyncio.run(serve())


get_ready()
{'threads': threads, 'asyncio': with_asyncio}[CASE]()
sys.exit(3)
