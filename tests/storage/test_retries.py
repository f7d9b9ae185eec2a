"""Patience, with a web server that fails for a while in each way that servers do."""

import errno
import socket
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import Mock

import pytest

from sssp_pipeline.base.errors import InputError, StoreUnavailableError
from sssp_pipeline.storage import files, retries

CONTENT = bytes(range(256)) * 64


class Ailing(BaseHTTPRequestHandler):
    """Answers the first requests as `server.ailments` says, all others rightly. Whole URLs are for a proxy."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        ailment = self.server.ailments.pop(0) if self.server.ailments else None
        if isinstance(ailment, int):
            self.send_error(ailment)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(CONTENT[:100] if ailment == "cut short" else CONTENT)
        self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving():
    """Give a server that answers on a port of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Ailing) as ailing:
        ailing.asked, ailing.ailments = [], []
        thread = threading.Thread(target=ailing.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ailing
        ailing.shutdown()
        thread.join()


@pytest.fixture
def quick(monkeypatch):
    """Forget earlier failures, and give a store up after half a second."""
    monkeypatch.setattr(retries, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retries, "RETRY_S", 0.5)
    monkeypatch.setattr(retries, "_outages", defaultdict(retries._Outage))
    monkeypatch.setattr(retries, "_reached", set())


@pytest.fixture
def server(quick):
    with serving() as ailing:
        yield ailing


def url_of(server) -> str:
    return f"http://127.0.0.1:{server.server_port}/file?signature=secret-signature"


@pytest.mark.parametrize("ailment", [408, 429, 500, 502, 503, 504, "cut short"])
def test_what_passes_is_waited_for(server, ailment):
    server.ailments = [ailment, ailment]
    assert files.read_bytes(url_of(server)) == CONTENT
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_a_permanent_failure_is_raised_at_once(server, status):
    server.ailments = [status] * 9
    with pytest.raises(InputError) as caught:
        files.read_bytes(url_of(server))
    assert len(server.asked) == 1
    assert "secret-signature" not in caught.value.message


def test_patience_ends_and_says_what_was_tried(server, caplog):
    server.ailments = [503] * 1000
    with pytest.raises(StoreUnavailableError) as caught:
        files.read_bytes(url_of(server))
    assert caught.value.message.startswith(
        f"`http://127.0.0.1:{server.server_port}/file` does not answer, after {len(server.asked)} attempts in "
    )
    assert "503" in caught.value.message
    assert "secret-signature" not in caught.value.message + caplog.text
    assert caught.value.exit_code == 1
    assert len(caplog.messages) == 1

    asked = len(server.asked)
    # A later call does not wait again for the same outage.
    with pytest.raises(StoreUnavailableError, match="after 1 attempt in"):
        files.read_bytes(url_of(server))
    assert len(server.asked) == asked + 1
    server.ailments = []
    assert files.read_bytes(url_of(server)) == CONTENT
    server.ailments = [503]
    assert files.read_bytes(url_of(server)) == CONTENT


def test_of_two_stores_that_fail_at_once_each_is_waited_for_by_itself(quick, caplog):
    with serving() as recovers, serving() as stays_away, ThreadPoolExecutor(8) as pool:
        for round_ in range(2):
            recovers.ailments, stays_away.ailments = [503] * 4, [503] * 10_000
            read = [
                pool.submit(files.read_bytes, url_of(s)) for s in (recovers, stays_away) for _ in range(4)
            ]
            assert [one.result() for one in read[:4]] == [CONTENT] * 4
            for one in read[4:]:
                with pytest.raises(StoreUnavailableError, match=f":{stays_away.server_port}/file"):
                    one.result()
            assert f":{recovers.server_port}/file" in "".join(caplog.messages), round_
        stays_away.ailments = []
        assert files.read_bytes(url_of(stays_away)) == CONTENT


@pytest.mark.parametrize("contact", ["an answer", "a refusal", "another process"])
def test_a_store_that_was_reached_is_waited_for_when_it_refuses_connections(server, contact):
    if contact == "another process":
        retries.mark_reachable(url_of(server))
    else:
        server.ailments = [404] if contact == "a refusal" else []
        with suppress(InputError):
            files.read_bytes(url_of(server))
        assert len(server.asked) == 1
    server.shutdown()
    server.server_close()
    with pytest.raises(StoreUnavailableError, match=r"does not answer, after \d+ attempts"):
        files.read_bytes(url_of(server))


@pytest.fixture
def unknown_hosts(monkeypatch):
    """Let no name be resolved, at once: the resolver of a test machine may take its time."""
    resolve = Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(retries, "_reached", set())


AZURE = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint={}/a;"


@pytest.mark.parametrize(
    "url", ["http://{}/x", "https://{}/x", "ftp://{}/x", "s3://bucket/x", "abfs://container/x"]
)
@pytest.mark.parametrize("host", ["127.0.0.1:9", "host.invalid:80"])
def test_the_first_contact_with_nobody_ends_at_once(url, host, monkeypatch, request):
    if host.startswith("host"):
        request.getfixturevalue("unknown_hosts")
    monkeypatch.setattr(retries, "_reached", set())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", AZURE.format(f"http://{host}"))
    url = url.format(host)
    began = time.monotonic()
    for ask in (files.read_bytes, lambda url: files.expand([url]), files.exists, files.fingerprint):
        with pytest.raises(StoreUnavailableError) as caught:
            ask(url)
        assert caught.value.message.startswith(f"`{url}` cannot be reached: ")
        assert caught.value.hint == (
            "check the address, the endpoint and the network, then run the same command again"
        )
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("port", ["99999", "9" * 5000])
def test_a_port_that_is_none_is_an_error_of_the_url(monkeypatch, port):
    monkeypatch.setattr(retries, "_reached", set())
    with pytest.raises(InputError, match="has a port that is not a number up to 65535"):
        files.read_bytes(f"http://127.0.0.1:{port}/x")


def test_causes_are_followed_however_a_client_keeps_them():
    def kept(**attributes: object) -> Exception:
        error = Exception("away")
        error.__dict__.update(attributes)
        return error

    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    for error in (
        refused,
        socket.gaierror(socket.EAI_NONAME, "unknown"),
        kept(os_error=refused),
        kept(inner_exception=kept(reason=refused)),
        Exception("retries", kept(reason=refused)),
    ):
        assert retries.is_unreachable(error)
    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError(), ValueError("no"), None):
        assert not retries.is_unreachable(error)


# ---- proxies ----


@pytest.fixture
def proxy(monkeypatch, server):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    return server


def test_a_proxy_of_the_environment_is_asked(proxy, monkeypatch):
    assert files.read_bytes("http://edges.invalid/file") == CONTENT
    assert set(proxy.asked) == {"http://edges.invalid/file"}
    monkeypatch.setenv("no_proxy", "edges.invalid")
    monkeypatch.setattr(retries, "_reached", set())
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        files.read_bytes("http://edges.invalid/file")


def test_a_store_behind_a_proxy_is_not_asked_directly(proxy, monkeypatch, unknown_hosts):
    retries.check_connection("s3://bucket", "http://store.invalid")
    monkeypatch.setenv("no_proxy", "store.invalid")
    with pytest.raises(StoreUnavailableError, match="`s3://bucket` cannot be reached"):
        retries.check_connection("s3://bucket", "http://store.invalid")


def test_an_impatient_caller_tries_once(server):
    server.ailments = [503] * 9
    with retries.without_retries(), pytest.raises(InputError):
        files.read_bytes(url_of(server))
    assert len(server.asked) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_is_no_failure_of_a_store_goes_through(monkeypatch, raised):
    failing = Mock(side_effect=[raised, ConnectionResetError])
    with pytest.raises(raised):
        retries.call_with_retries("place", failing)
    monkeypatch.setattr(time, "sleep", Mock(side_effect=raised))  # during a wait
    with pytest.raises(raised):
        retries.call_with_retries("place", failing)
    assert (failing.call_count, time.sleep.call_count) == (2, 1)


def s3_error(code: str, status: int) -> Exception:
    """Return the error of an answer of S3, as s3fs raises it."""
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    answer = {"Error": {"Code": code, "Message": "…"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return translate_boto_error(ClientError(answer, "PutObject"))


@pytest.mark.parametrize(
    ("code", "status", "passes"),
    [
        # CompleteMultipartUpload begins its answer with 200 before it knows.
        *(("SlowDown", 503, True), ("InternalError", 500, True), ("InternalError", 200, True)),
        *(("RequestTimeout", 400, True), ("ConditionalRequestConflict", 409, True), ("503", 503, True)),
        *(("NoSuchKey", 404, False), ("NoSuchBucket", 404, False), ("AccessDenied", 403, False)),
        *(("SignatureDoesNotMatch", 403, False), ("ExpiredToken", 400, False)),
        *(("PreconditionFailed", 412, False), ("BucketAlreadyExists", 409, False)),
    ],
)
def test_answers_of_s3(code, status, passes):
    assert retries.is_temporary(s3_error(code, status)) is passes


def test_certificates_do_not_pass_and_broken_connections_do():
    from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError, SSLError

    url = "https://store"
    assert not retries.is_temporary(SSLError(endpoint_url=url, error="certificate verify failed"))
    assert retries.is_temporary(SSLError(endpoint_url=url, error="EOF occurred in violation of protocol"))
    assert retries.is_temporary(EndpointConnectionError(endpoint_url=url))
    assert retries.is_temporary(ReadTimeoutError(endpoint_url=url))
    assert not retries.is_temporary(NoCredentialsError())
