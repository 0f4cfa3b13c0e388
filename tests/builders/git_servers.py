"""Real git servers on loopback: git's own http-backend behind TLS, and OpenSSH's sshd or asyncssh's server."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

# asyncssh brings it.
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey
ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "p@ss/word"  # noqa: S105 (of a server that lives for one test)
TOKEN = "bearer-token"  # noqa: S105
UID = 65532
"""The user of the image."""


def find_sshd() -> str | None:
    return shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def http_backend() -> Path:
    made = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True)
    return Path(made.stdout.strip()) / "git-http-backend"


@dataclass(frozen=True)
class Certificates:
    """A CA (ca.crt), and what it signed: server.crt and server.key for 127.0.0.1, tls.crt and tls.key for a client."""

    folder: Path

    def make(self) -> None:
        self.folder.mkdir()
        ca = self._write("ca", "ca", x509.BasicConstraints(ca=True, path_length=None))
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        self._write("server", "127.0.0.1", address, *ca)
        self._write("tls", "client", address, *ca)

    def context(self) -> ssl.SSLContext:
        """Of a server."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        return made

    def _write(
        self, file: str, subject: str, extension: x509.ExtensionType, issuer: str = "", signer: Key | None = None
    ) -> tuple[str, Key]:
        """What signs others: the subject and its key. Without a signer it signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer, now = signer or key, datetime.now(UTC)
        made = x509.CertificateBuilder(_name(issuer or subject), _name(subject), key.public_key())
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        for each in (extension, x509.SubjectKeyIdentifier.from_public_key(key.public_key()), known):
            made = made.add_extension(each, critical=isinstance(each, x509.BasicConstraints))
        signed = made.sign(signer, hashes.SHA256())
        (self.folder / f"{file}.crt").write_bytes(signed.public_bytes(Encoding.PEM))
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{file}.key").write_bytes(secret)
        return subject, key


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _tls_context(certificates: Certificates, *, asks_certificate: bool) -> ssl.SSLContext:
    context = certificates.context()
    if asks_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.folder / "ca.crt")
    return context


@dataclass
class Answer:
    """What git's backend says to one request, and how it is sent; a trick changes it. end: follows the body, for as
    long as the client listens; then the length is not told."""

    request: bytes
    status: int
    headers: dict[str, str]
    body: bytes
    end: Iterator[bytes] | None = None

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(self.status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        if self.end is None:
            handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        with contextlib.suppress(OSError):  # the client has gone
            handler.wfile.write(self.body)
            for piece in self.end or ():
                handler.wfile.write(piece)
                handler.wfile.flush()


Trick = Callable[[Answer], None]


@contextmanager
def https_git_server(root: Path, certificates: Certificates, ask: str, tricks: Sequence[Trick] = ()) -> Iterator[str]:
    """Serve the repositories below `root`; the address. ask: what a client must show, "password", "bearer" or
    "certificate". tricks: what is done to each answer; may change meanwhile."""
    expected: dict[str, set[str | None]] = {
        "password": {f"Basic {base64.b64encode(f'{name}:{PASSWORD}'.encode()).decode()}" for name in ("git", "robot")},
        "bearer": {f"Bearer {TOKEN}"},
        "certificate": {None},
    }
    backend = http_backend()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") not in expected[ask]:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            made = subprocess.run([backend], env=environment, input=body, capture_output=True, check=True).stdout
            head, _, content = made.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            answer = Answer(body, int(headers.pop("Status", "200").split()[0]), headers, content)
            for trick in tricks:
                trick(answer)
            answer.send(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = _tls_context(certificates, asks_certificate=ask == "certificate")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class SshServer:
    """An ssh server on loopback, and the folder of a Secret that it lets in."""

    port: int
    secret: Path


def make_key(file: Path) -> str:
    """A key pair: the private key in the file; the public one."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file.with_name(f"{file.name}.pub").read_text()


@contextmanager
def ssh_git_server(folder: Path, port: int) -> Iterator[SshServer]:
    """Start OpenSSH's sshd, or where the machine has none asyncssh's server. Needs root.

    The user of the image owns what is served and logs in under the name `git`.
    """
    secret = folder / "secret"
    secret.mkdir()
    (folder / "keys").write_text(make_key(secret / "ssh-privatekey"))
    (secret / "known_hosts").write_text(f"[127.0.0.1]:{port} {make_key(folder / 'host')}")
    os.chown(secret / "ssh-privatekey", UID, UID)
    sshd = find_sshd()
    command = _sshd_command(sshd, folder, port) if sshd else _asyncssh_command(folder, port)
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while b"Server listening" not in (folder / "server.log").read_bytes():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "server.log").read_text())
            time.sleep(0.02)
        yield SshServer(port, secret)
    finally:
        server.kill()
        server.wait()


def _sshd_command(sshd: str, folder: Path, port: int) -> list[str]:
    """sshd in a mount namespace of its own, with users that the machine may not have."""
    passwd = folder / "server-passwd"
    passwd.write_text(
        Path("/etc/passwd").read_text()
        + f"sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin\ngit:x:{UID}:{UID}::{folder}:/bin/sh\n"
    )
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/keys\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
    )
    script = (
        f"mount --bind {passwd} /etc/passwd && mount -t tmpfs none /run && mkdir /run/sshd && "
        f"exec {sshd} -D -e -f {folder}/config"
    )
    return ["unshare", "--mount", "sh", "-c", script]


def _asyncssh_command(folder: Path, port: int) -> list[str]:
    program = [sys.executable, "-m", "tests.builders.ssh_server"]
    return [*program, str(port), str(folder / "host"), str(folder / "keys"), str(UID)]
