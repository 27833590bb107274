"""A small S3 server for tests: it verifies signatures (AWS Signature Version 4), checksums, and
clocks, and it fails on request.

    s3_server.py --dir DIR [--tls-cert FILE --tls-key FILE]

Prints "PORT\\n" and serves the bucket "test" for the access key "profd-key" with the secret
"profd-secret" until stdin ends. Objects and parts of unfinished uploads are files below DIR, so
they outlive the server. Tests steer it without a signature:

    POST /_faults  {"status": 503, "code": "SlowDown", "count": 3, "method": "PUT", "match": "part"}
                   the next `count` requests that match fail so; "cut": N closes the connection
                   after N bytes of the body; "delay": seconds; "corrupt": true changes a byte
                   before the checksum is verified; "body": text is the answer, with status 200;
                   "skew": seconds moves the server's clock;
                   "heal": true ends all of it
    GET  /_log     the requests since the start: method, path, status, bytes of the answer's body

It also answers as the metadata service of a cloud instance (/latest/...), with the same keys and
a session token.

Only the Python standard library is needed; other programs can use the class S3Server.
"""

import argparse
import datetime
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse
import uuid
from xml.sax.saxutils import escape

ACCESS_KEY = "profd-key"
SECRET_KEY = "profd-secret"
TOKEN = "profd-session-token"
BUCKET = "test"
REGION = "us-east-1"
LARGEST_SKEW_S = 15 * 60
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Refusal(Exception):
    def __init__(self, status, code, message=""):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


def encode(text, safe="-._~"):
    return urllib.parse.quote(text, safe=safe)


def signature(method, raw_path, raw_query, headers, signed, payload_hash, stamp, scope, secret):
    """The signature that the specification asks for, from the request as it arrived."""
    query = sorted((encode(urllib.parse.unquote(name)), encode(urllib.parse.unquote(value)))
                   for name, _, value in (part.partition("=") for part in raw_query.split("&") if part))
    path = encode(urllib.parse.unquote(raw_path), safe="/-._~") or "/"
    canonical = "\n".join([
        method, path, "&".join(f"{name}={value}" for name, value in query),
        "".join(f"{name}:{' '.join(headers.get(name, '').split())}\n" for name in signed),
        ";".join(signed), payload_hash])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


class Storage:
    """Objects and unfinished uploads as files: DIR/objects/ENCODED-KEY, DIR/uploads/ID/."""

    def __init__(self, folder):
        self.objects = pathlib.Path(folder) / "objects"
        self.uploads = pathlib.Path(folder) / "uploads"
        self.objects.mkdir(parents=True, exist_ok=True)
        self.uploads.mkdir(parents=True, exist_ok=True)

    def path(self, key):
        return self.objects / encode(key)

    def put(self, key, data, meta):
        path = self.path(key)
        new = path.with_name(f"{uuid.uuid4().hex}.new")
        new.write_bytes(json.dumps(meta).encode() + b"\n" + data)
        os.replace(new, path)

    def get(self, key):
        try:
            meta, _, data = self.path(key).read_bytes().partition(b"\n")
        except FileNotFoundError:
            raise Refusal(404, "NoSuchKey") from None
        return json.loads(meta), data

    def keys(self):
        return sorted(urllib.parse.unquote(path.name) for path in self.objects.iterdir()
                      if path.suffix != ".new")

    def upload(self, upload_id, key):
        folder = self.uploads / re.sub(r"[^0-9a-f]", "", upload_id)
        if not upload_id or not (folder / "about").exists():
            raise Refusal(404, "NoSuchUpload")
        about = json.loads((folder / "about").read_text())
        if about["key"] != key:
            raise Refusal(404, "NoSuchUpload")
        return folder, about

    def parts(self, folder):
        return sorted((int(path.name), path) for path in folder.iterdir() if path.name.isdigit())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "test-s3"

    def log_message(self, *_):
        pass

    # ---- faults and the log ----

    def control(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        owner = self.server.owner
        if self.path == "/_faults":
            with owner.lock:
                fault = json.loads(body)
                if fault.get("heal"):
                    owner.faults.clear()
                else:
                    owner.faults.append(fault)
            answer = b"{}"
        else:
            with owner.lock:
                answer = json.dumps(owner.requests).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def metadata(self):
        body, allowed = b"metadata-token", self.command == "PUT"
        if self.command == "GET":
            allowed = self.headers.get("x-aws-ec2-metadata-token") == "metadata-token"
            body = b"profd-role" if self.path.endswith("/") else json.dumps({
                "Code": "Success", "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY,
                "Token": TOKEN, "Expiration": "2099-01-01T00:00:00Z"}).encode()
        self.record(200 if allowed else 401, len(body))
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body) if allowed else 0))
        self.end_headers()
        if allowed:
            self.wfile.write(body)

    def fault(self):
        owner = self.server.owner
        with owner.lock:
            for fault in owner.faults:
                if fault.get("count", 1) <= 0 or "skew" in fault:
                    continue
                if fault.get("method", self.command) != self.command:
                    continue
                if fault.get("match", "") not in self.path:
                    continue
                fault["count"] = fault.get("count", 1) - 1
                return dict(fault)
        return {}

    def now(self):
        owner = self.server.owner
        with owner.lock:
            skew = sum(fault.get("skew", 0) for fault in owner.faults)
        return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=skew)

    def date_time_string(self, timestamp=None):
        return self.now().strftime("%a, %d %b %Y %H:%M:%S GMT")

    # ---- requests ----

    def do_GET(self):
        self.serve()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def serve(self):
        if self.path.startswith("/_"):
            self.control()
            return
        if self.path.startswith("/latest/"):
            self.metadata()
            return
        fault = self.fault()
        status, headers, body = 500, {}, b""
        try:
            data = self.read_body(fault)
            if "status" in fault:
                raise Refusal(fault["status"], fault.get("code", "InternalError"), "as asked")
            self.verify(data, fault)
            if "body" in fault:
                status, body = 200, fault["body"].encode()
            else:
                status, headers, body = self.answer(data)
        except Refusal as refusal:
            status = refusal.status
            body = (f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code>"
                    f"<Message>{escape(refusal.message)}</Message></Error>").encode()
        except ConnectionError:
            self.close_connection = True
            self.record("cut", 0)
            return
        self.record(status, len(body))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            if "cut_answer" in fault:
                body = body[:fault["cut_answer"]]
                self.close_connection = True
            self.wfile.write(body)

    def record(self, status, sent_bytes):
        with self.server.owner.lock:
            self.server.owner.requests.append(
                {"method": self.command, "path": self.path, "status": status, "bytes": sent_bytes})

    def read_body(self, fault):
        length = int(self.headers.get("content-length", 0))
        time.sleep(fault.get("delay", 0))
        if "cut" in fault:
            self.rfile.read(min(length, fault["cut"]))
            raise ConnectionError
        data = self.rfile.read(length)
        if len(data) < length:
            raise ConnectionError
        return data

    def verify(self, data, fault):
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)",
            self.headers.get("authorization", ""))
        if not match:
            raise Refusal(403, "AccessDenied", "not signed")
        access, scope, signed, given = match.groups()
        if access != ACCESS_KEY:
            raise Refusal(403, "InvalidAccessKeyId")
        signed = signed.split(";")
        names = {name.lower() for name in self.headers}
        must = {name for name in names if name == "host" or name.startswith("x-amz-")}
        if not must <= set(signed):
            raise Refusal(403, "AccessDenied", f"not signed: {sorted(must - set(signed))}")
        stamp = self.headers["x-amz-date"]
        if scope != f"{stamp[:8]}/{REGION}/s3/aws4_request":
            raise Refusal(400, "AuthorizationHeaderMalformed", scope)
        payload_hash = self.headers.get("x-amz-content-sha256", "")
        raw_path, _, raw_query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        wanted = signature(self.command, raw_path, raw_query, headers, signed, payload_hash, stamp,
                           scope, SECRET_KEY)
        if not hmac.compare_digest(wanted, given):
            raise Refusal(403, "SignatureDoesNotMatch")
        then = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(
            tzinfo=datetime.timezone.utc)
        if abs((self.now() - then).total_seconds()) > LARGEST_SKEW_S:
            raise Refusal(403, "RequestTimeTooSkewed")
        if fault.get("corrupt") and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        if hashlib.sha256(data).hexdigest() != payload_hash:
            raise Refusal(400, "XAmzContentSHA256Mismatch")

    def answer(self, data):
        raw_path, _, raw_query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(raw_query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(raw_path).lstrip("/").partition("/")
        if bucket != BUCKET:
            raise Refusal(404, "NoSuchBucket")
        storage = self.server.owner.storage
        with self.server.owner.storage_lock:
            return self.dispatch(storage, key, query, data)

    def meta(self):
        return {name.lower(): value for name, value in self.headers.items()
                if name.lower().startswith("x-amz-meta-") or name.lower() in
                ("content-type", "x-amz-server-side-encryption")}

    def dispatch(self, storage, key, query, data):
        if not key and self.command == "GET":
            if "uploads" in query:
                return self.list_uploads(storage, query)
            return self.list_objects(storage, query)
        if self.command == "POST" and "uploads" in query:
            upload_id = uuid.uuid4().hex
            folder = storage.uploads / upload_id
            folder.mkdir()
            (folder / "about").write_text(json.dumps({"key": key, "meta": self.meta()}))
            return xml("InitiateMultipartUploadResult", f"<UploadId>{upload_id}</UploadId>")
        if "uploadId" in query:
            return self.multipart(storage, key, query, data)
        if self.command == "PUT":
            storage.put(key, data, self.meta())
            return 200, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}, b""
        if self.command == "DELETE":
            storage.path(key).unlink(missing_ok=True)
            return 204, {}, b""
        if self.command in ("GET", "HEAD"):
            return self.read_object(storage, key)
        raise Refusal(405, "MethodNotAllowed")

    def read_object(self, storage, key):
        meta, data = storage.get(key)
        headers = {**meta, "ETag": f'"{hashlib.md5(data).hexdigest()}"'}
        if self.command == "HEAD":
            return 200, {**headers, "Content-Length": str(len(data))}, b""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if not match:
            return 200, headers, data
        first, last = int(match[1]), min(int(match[2]), len(data) - 1)
        if first >= len(data):
            raise Refusal(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return 206, headers, data[first:last + 1]

    def list_objects(self, storage, query):
        keys = [key for key in storage.keys() if key.startswith(query.get("prefix", ""))]
        after = query.get("continuation-token", "")
        keys = [key for key in keys if key > after]
        page = self.server.owner.page_size
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(storage.get(key)[1])}</Size></Contents>"
            for key in keys[:page])
        more = len(keys) > page
        tail = f"<NextContinuationToken>{escape(keys[page - 1])}</NextContinuationToken>" if more else ""
        return xml("ListBucketResult", f"<IsTruncated>{str(more).lower()}</IsTruncated>{tail}{rows}")

    def list_uploads(self, storage, query):
        rows = ""
        for folder in sorted(storage.uploads.iterdir()):
            key = json.loads((folder / "about").read_text())["key"]
            if key.startswith(query.get("prefix", "")):
                rows += (f"<Upload><Key>{escape(key)}</Key>"
                         f"<UploadId>{folder.name}</UploadId></Upload>")
        return xml("ListMultipartUploadsResult", f"<IsTruncated>false</IsTruncated>{rows}")

    def multipart(self, storage, key, query, data):
        folder, about = storage.upload(query["uploadId"], key)
        if self.command == "PUT":
            number = int(query["partNumber"])
            if not 1 <= number <= 10000:
                raise Refusal(400, "InvalidArgument")
            new = folder / f"new-{uuid.uuid4().hex}"
            new.write_bytes(data)
            os.replace(new, folder / str(number))
            return 200, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}, b""
        if self.command == "GET":
            after = int(query.get("part-number-marker", 0))
            parts = [part for part in storage.parts(folder) if part[0] > after]
            page = self.server.owner.page_size
            rows = "".join(
                f"<Part><PartNumber>{number}</PartNumber><Size>{path.stat().st_size}</Size>"
                f"<ETag>&quot;{hashlib.md5(path.read_bytes()).hexdigest()}&quot;</ETag></Part>"
                for number, path in parts[:page])
            more = len(parts) > page
            tail = f"<NextPartNumberMarker>{parts[page - 1][0]}</NextPartNumberMarker>" if more else ""
            return xml("ListPartsResult", f"<IsTruncated>{str(more).lower()}</IsTruncated>{tail}{rows}")
        if self.command == "POST":
            named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>(?:&quot;|\")?([0-9a-f]+)",
                               data.decode())
            have = {number: path.read_bytes() for number, path in storage.parts(folder)}
            whole = b""
            for number, etag in named:
                part = have.get(int(number))
                if part is None or hashlib.md5(part).hexdigest() != etag:
                    raise Refusal(400, "InvalidPart", number)
                whole += part
            if not named:
                raise Refusal(400, "MalformedXML")
            storage.put(key, whole, about["meta"])
            self.remove(folder)
            return xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key>")
        if self.command == "DELETE":
            self.remove(folder)
            return 204, {}, b""
        raise Refusal(405, "MethodNotAllowed")

    @staticmethod
    def remove(folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def xml(root, inner):
    body = f'<?xml version="1.0" encoding="UTF-8"?><{root} {NAMESPACE}>{inner}</{root}>'
    return 200, {"Content-Type": "application/xml"}, body.encode()


class S3Server:
    """Serves in threads of this process: start() once, stop() any time; `port` stays the same."""

    def __init__(self, folder, port=0, page_size=1000, tls=None):
        self.storage = Storage(folder)
        self.storage_lock = threading.Lock()
        self.lock = threading.Lock()
        self.faults, self.requests = [], []
        self.page_size, self.port, self.tls = page_size, port, tls
        self.server = None

    def start(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.server.owner = self
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def endpoint(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def fail(self, **fault):
        with self.lock:
            self.faults.append(fault)

    def heal(self):
        with self.lock:
            self.faults.clear()

    def unfinished(self):
        return [folder.name for folder in self.storage.uploads.iterdir()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    options = parser.parse_args()
    tls = (options.tls_cert, options.tls_key) if options.tls_cert else None
    server = S3Server(options.dir, page_size=options.page_size, tls=tls).start()
    print(server.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
