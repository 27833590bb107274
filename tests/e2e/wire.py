"""A network of this machine's own: network namespaces, joined by a wire made of software.

The wire is this process: it carries the packets between one TUN device per namespace, and holds
them up, loses them, or lets none through. It needs root and /dev/net/tun, and no module of the
kernel's traffic control.

    wire = Wire(seed=1)
    host = wire.attach('node0')        # a namespace with the address host.address
    subprocess.run([*host.prefix, 'profd', ...])
    wire.delay_s, wire.loss = 0.02, 0.01
    wire.cut(host)                     # nothing from it or to it arrives, until heal(host)
    wire.close()
"""

import ctypes
import fcntl
import heapq
import os
import pathlib
import random
import select
import socket
import struct
import subprocess
import threading
import time

TUN = '/dev/net/tun'
DEVICE = 'wire'
TUNSETIFF = 0x400454ca
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
LONGEST_PACKET = 65536


def why_not():
    """What this machine lacks for a wire; None: nothing."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f'there is no {TUN}'
    name = f'profd-try-{os.getpid()}'
    try:
        made = subprocess.run(['ip', 'netns', 'add', name], capture_output=True, check=False)
    except FileNotFoundError:
        return 'there is no ip (iproute2)'
    if made.returncode != 0:
        return f'no network namespace can be made: {made.stderr.decode().strip()}'
    subprocess.run(['ip', 'netns', 'delete', name], check=True)
    return None


class Host:
    """One end of the wire."""

    def __init__(self, namespace, address, device):
        self.namespace = namespace
        self.address = address
        self.device = device
        self.prefix = ['ip', 'netns', 'exec', namespace]  # Before a command that runs there.


def _open_tun(namespace):
    """A TUN device inside a namespace: only who is in it can make one, so a thread goes there."""
    opened = []

    def enter():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(pathlib.Path('/run/netns') / namespace, 'rb') as place:
            if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), 'setns')
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack('16sH', DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        opened.append(device)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not opened:
        raise OSError(f'no TUN device in {namespace}')
    return opened[0]


class Wire:
    def __init__(self, seed=1):
        self.delay_s = 0
        self.jitter_s = 0
        self.loss = 0
        self.lost = 0
        self.carried = 0
        self.random = random.Random(seed)
        self.hosts = {}  # By address, packed.
        self.cut_off = set()
        self.lock = threading.Lock()
        self.wake, self.waker = os.pipe()
        self.is_over = False
        self.thread = threading.Thread(target=self._carry, name='wire', daemon=True)
        self.thread.start()

    def attach(self, name):
        namespace = f'profd-{os.getpid()}-{name}'
        number = len(self.hosts) + 1
        address = f'10.77.{number // 250}.{number % 250 + 1}'
        subprocess.run(['ip', 'netns', 'add', namespace], check=True)
        device = _open_tun(namespace)
        for command in (['link', 'set', 'lo', 'up'],
                        ['address', 'add', f'{address}/16', 'dev', DEVICE],
                        ['link', 'set', DEVICE, 'up']):
            subprocess.run(['ip', '-n', namespace, *command], check=True)
        host = Host(namespace, address, device)
        with self.lock:
            self.hosts[socket.inet_aton(address)] = host
        os.write(self.waker, b'x')
        return host

    def cut(self, host):
        with self.lock:
            self.cut_off.add(host)

    def heal(self, host):
        with self.lock:
            self.cut_off.discard(host)

    def close(self):
        """Ends the wire and its namespaces; who still runs in them has no network any more."""
        self.is_over = True
        os.write(self.waker, b'x')
        self.thread.join()
        for host in self.hosts.values():
            os.close(host.device)
            subprocess.run(['ip', 'netns', 'delete', host.namespace], check=False)
        os.close(self.wake)
        os.close(self.waker)

    def _carry(self):
        under_way = []  # (when it arrives, tie-break, packet)
        count = 0
        while not self.is_over:
            with self.lock:
                devices = {host.device: host for host in self.hosts.values()}
            wait_s = max(0, under_way[0][0] - time.monotonic()) if under_way else None
            ready, _, _ = select.select([self.wake, *devices], [], [], wait_s)
            for device in ready:
                if device == self.wake:
                    os.read(self.wake, 4096)
                    continue
                for packet in self._packets(device):
                    if self._loses(devices[device]):
                        continue
                    delay_s = self.delay_s + self.random.random() * self.jitter_s
                    count += 1
                    heapq.heappush(under_way, (time.monotonic() + delay_s, count, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                self._deliver(heapq.heappop(under_way)[2])

    @staticmethod
    def _packets(device):
        while True:
            try:
                packet = os.read(device, LONGEST_PACKET)
            except BlockingIOError:
                return
            if len(packet) >= 20 and packet[0] >> 4 == 4:
                yield packet

    def _loses(self, sender):
        with self.lock:
            lost = sender in self.cut_off or self.random.random() < self.loss
        self.lost += lost
        return lost

    def _deliver(self, packet):
        with self.lock:
            host = self.hosts.get(packet[16:20])
            if host is None or host in self.cut_off:
                return
        try:
            os.write(host.device, packet)
            self.carried += 1
        except OSError:
            self.lost += 1  # Its queue is full, as a switch's may be.
