"""The daemon's gRPC contract, proto/profd/v1, for _client.py: messages, calls, errors.

Messages are made at run time from `profd_api.binpb`, protoc's description of the contract, as
code that protoc writes fits few versions of protobuf only. It lies inside the package or, in a
build, next to the library. gRPC and protobuf are imported when a Client is made, not before.
"""

import ipaddress
import os
import pwd
import socket
import struct
from typing import Any, Generator, List, NamedTuple, Optional, Tuple, Union

from profd import _library

_DESCRIPTORS = "profd_api.binpb"
_SYSTEM_FOLDER = "/run/profd"
_SOCKET = "control.sock"
_DAEMON_ACCOUNT = "profd"
# An operator table by step of a large capture; the daemon's own limit is lower.
_MAX_MESSAGE_BYTES = 512 << 20
_REASON_KEY = "profd-reason"


class ProfdError(Exception):
    """What the daemon refused, or why it could not be asked.

    code      gRPC's name of the status: "NOT_FOUND", "UNAVAILABLE".
    reason    stable, in capitals, to branch on: "NO_STEPS"; empty: none.
    """

    def __init__(self, code: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


ProfdError.__module__ = "profd"  # Where users know it.


# The longest first: "1ms" ends with "s", too.
_UNITS = (("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0))


def seconds_of(length: Union[float, str]) -> float:
    """A number of seconds, or a text such as "500ms", "2m". Raises ValueError for others."""
    if not isinstance(length, str):
        return float(length)
    for unit, seconds in _UNITS:
        if length.endswith(unit):
            try:
                return float(length[:-len(unit)]) * seconds
            except ValueError:
                break
    raise ValueError("%r is not a duration: give seconds, or a text such as '500ms', '1s', '2m'" %
                     length)


class Tls(NamedTuple):
    """How to be sure of a daemon on another machine, and it of us. Paths of PEM files."""

    ca: str
    cert: str = ""
    key: str = ""
    server_name: str = ""


class Api:
    """A connection to one daemon.

    Threads: any. Fork: a child must not use its parent's.
    """

    def __init__(self, address: Optional[str], timeout_s: float,
                 tls: Optional[Tls] = None) -> None:
        try:
            import grpc
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            raise ImportError("profd.Client needs gRPC and protobuf (%s): "
                              "pip install 'profd[client]'" % error) from error
        self._grpc = grpc
        self._timeout_s = timeout_s
        self._factory = message_factory
        # A pool of its own: the program may have other messages of these names.
        self._pool = descriptor_pool.DescriptorPool()
        described = descriptor_pb2.FileDescriptorSet.FromString(_read_descriptors())
        for file in described.file:
            self._pool.Add(file)
        self.address = find_address(address)
        self._channel = self._open(tls or tls_of_environment())

    def _open(self, tls: Optional[Tls]) -> Any:
        options: List[Tuple[str, Any]] = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.address.startswith("unix:"):
            _check_owners(self.address[len("unix:"):])
            options.append(("grpc.default_authority", "localhost"))
            return self._grpc.insecure_channel(self.address, options=options)
        if tls is None:
            if not is_loopback(self.address):
                raise ProfdError("INVALID_ARGUMENT", "%s needs certificates: give tls_ca, tls_cert "
                                 "and tls_key, or set PROFD_TLS_CA, PROFD_TLS_CERT and "
                                 "PROFD_TLS_KEY" % self.address)
            return self._grpc.insecure_channel(self.address, options=options)
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = self._grpc.ssl_channel_credentials(
            _read_pem(tls.ca), _read_pem(tls.key) if tls.key else None,
            _read_pem(tls.cert) if tls.cert else None)
        return self._grpc.secure_channel(self.address, credentials, options=options)

    def message(self, name: str, **fields: Any) -> Any:
        """A message of profd.v1."""
        return self._class_of(self._pool.FindMessageTypeByName("profd.v1." + name))(**fields)

    def duration(self, length: Union[float, str]) -> Any:
        """Of a number of seconds, or a text such as "500ms"."""
        seconds = seconds_of(length)
        whole = int(seconds)
        kind = self._pool.FindMessageTypeByName("google.protobuf.Duration")
        return self._class_of(kind)(seconds=whole, nanos=int(round((seconds - whole) * 1e9)))

    def call(self, service: str, method: str, **fields: Any) -> Any:
        """The answer of a call that has one. Raises ProfdError."""
        described, path = self._method(service, method)
        function = self._channel.unary_unary(
            path, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._class_of(described.output_type).FromString)
        try:
            return function(self._class_of(described.input_type)(**fields),
                            timeout=self._timeout_s)
        except self._grpc.RpcError as error:
            raise self._translated(error) from None

    def stream(self, service: str, method: str, timeout_s: Optional[float] = None,
               **fields: Any) -> Generator[Any, None, None]:
        """The answers of a call that has many; ends the call when it is closed."""
        described, path = self._method(service, method)
        function = self._channel.unary_stream(
            path, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._class_of(described.output_type).FromString)
        answers = function(self._class_of(described.input_type)(**fields), timeout=timeout_s)
        try:
            yield from answers
        except self._grpc.RpcError as error:
            raise self._translated(error) from None
        finally:
            answers.cancel()

    def close(self) -> None:
        self._channel.close()

    def _method(self, service: str, method: str) -> Any:
        described = self._pool.FindServiceByName("profd.v1." + service)
        return described.methods_by_name[method], "/profd.v1.%s/%s" % (service, method)

    def _class_of(self, descriptor: Any) -> Any:
        if hasattr(self._factory, "GetMessageClass"):
            return self._factory.GetMessageClass(descriptor)
        return self._factory.MessageFactory(self._pool).GetPrototype(descriptor)

    def _translated(self, error: Any) -> ProfdError:
        trailers = dict(error.trailing_metadata() or ())
        code = error.code().name
        message = error.details() or code
        if code == "UNAVAILABLE":
            message += " (at %s; is profd running, and do its certificates and ours fit?)" % (
                self.address)
        return ProfdError(code, message, str(trailers.get(_REASON_KEY, "")))


def find_address(address: Optional[str]) -> str:
    """Where to ask, as profctl finds it: `address`, PROFD_ADDRESS, PROFD_SOCKET_DIR, the usual."""
    chosen = address or os.environ.get("PROFD_ADDRESS")
    if chosen:
        if "/" in chosen and not chosen.startswith("unix:"):
            chosen = "unix:" + chosen
        return chosen
    folder = os.environ.get("PROFD_SOCKET_DIR")
    if folder:
        return "unix:" + os.path.join(folder, _SOCKET)
    folders = [_SYSTEM_FOLDER]
    if os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(os.path.join(os.environ["XDG_RUNTIME_DIR"], "profd"))
    paths = [os.path.join(folder, _SOCKET) for folder in folders]
    for path in paths:
        if _accepts(path):
            return "unix:" + path
    raise ProfdError("UNAVAILABLE", "no daemon answers at %s; start profd, or say where it is with "
                     "PROFD_SOCKET_DIR" % " or ".join(paths))


def make_tls(ca: Optional[str], cert: Optional[str], key: Optional[str],
             server_name: Optional[str]) -> Optional[Tls]:
    """None: nothing is given. ValueError for what does not go together."""
    if not (ca or cert or key):
        if server_name:
            raise ValueError("tls_server_name needs tls_ca")
        return None
    if not ca:
        raise ValueError("a certificate needs the authority that signs the daemon's: tls_ca, "
                         "PROFD_TLS_CA")
    if bool(cert) != bool(key):
        raise ValueError("a certificate and its key go together: tls_cert and tls_key, "
                         "PROFD_TLS_CERT and PROFD_TLS_KEY")
    return Tls(ca, cert or "", key or "", server_name or "")


def tls_of_environment() -> Optional[Tls]:
    """What profctl takes from the environment, too."""
    get = os.environ.get
    ca, cert, key = get("PROFD_TLS_CA"), get("PROFD_TLS_CERT"), get("PROFD_TLS_KEY")
    if not (ca or cert or key):
        return None
    return make_tls(ca, cert, key, get("PROFD_TLS_SERVER_NAME"))


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is of this machine. Names are not looked up."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_pem(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _check_owners(path: str) -> None:
    """Raises ProfdError for a socket of neither root, the account profd, nor this user.

    What else is wrong with it, the first call says.
    """
    trusted = {0, os.geteuid()}
    try:
        trusted.add(pwd.getpwnam(_DAEMON_ACCOUNT).pw_uid)
    except KeyError:
        pass
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
            owners = [os.lstat(path).st_uid]
        except OSError:
            return
        credentials = struct.Struct("iII")  # Of who called listen(): pid, uid, gid.
        owners.append(credentials.unpack(
            probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))[1])
    for uid in owners:
        if uid not in trusted:
            raise ProfdError("PERMISSION_DENIED", "%s belongs to uid %d, not to root, %s, or your "
                             "own user" % (path, uid, _DAEMON_ACCOUNT), "OTHER_USERS_DAEMON")


def _read_descriptors() -> bytes:
    tried: List[str] = []
    folders = [_library.PACKAGE_DIR]
    folders += filter(None, map(os.path.dirname, _library.candidates()))
    for folder in folders:
        path = os.path.join(folder, _DESCRIPTORS)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            tried.append(path)
    raise ImportError("profd.Client has no %s; looked for %s" % (_DESCRIPTORS, ", ".join(tried)))
