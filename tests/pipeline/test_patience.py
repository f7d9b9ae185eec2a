"""Patience, with a web server that fails for a while in each way that servers do."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sssp_pipeline.errors import InputError, StoreAwayError
from sssp_pipeline.pipeline import patience, storage

CONTENT = bytes(range(256)) * 64


class Ailing(BaseHTTPRequestHandler):
    """Answers the first requests as `server.ailments` says, all others rightly."""

    def do_GET(self) -> None:
        self.server.asked += 1
        ailment = self.server.ailments.pop(0) if self.server.ailments else None
        if isinstance(ailment, int):
            self.send_error(ailment)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100] if ailment == "cut short" else CONTENT)
        self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(patience, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(patience, "PATIENCE_S", 0.5)
    monkeypatch.setattr(patience, "_outage", patience._Outage())
    with ThreadingHTTPServer(("127.0.0.1", 0), Ailing) as ailing:
        ailing.asked, ailing.ailments = 0, []
        thread = threading.Thread(target=ailing.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ailing
        ailing.shutdown()
        thread.join()


def url_of(server) -> str:
    return f"http://127.0.0.1:{server.server_port}/file?signature=not-to-be-told"


@pytest.mark.parametrize("ailment", [408, 429, 500, 502, 503, 504, "cut short"])
def test_what_passes_is_waited_for(server, ailment):
    server.ailments = [ailment, ailment]
    assert storage.read_bytes(url_of(server)) == CONTENT
    assert server.asked == 3


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_what_does_not_pass_is_told_at_once(server, status):
    server.ailments = [status] * 9
    with pytest.raises(InputError) as caught:
        storage.read_bytes(url_of(server))
    assert server.asked == 1
    assert "not-to-be-told" not in caught.value.message


def test_patience_ends_and_says_what_was_tried(server, caplog):
    server.ailments = [503] * 1000
    with pytest.raises(StoreAwayError) as caught:
        storage.read_bytes(url_of(server))
    assert caught.value.message.startswith(
        f"`http://127.0.0.1:{server.server_port}/file` does not answer, after {server.asked} attempts in "
    )
    assert "503" in caught.value.message
    assert "not-to-be-told" not in caught.value.message + caplog.text
    assert caught.value.exit_code == 1
    assert len(caplog.messages) == 1

    asked = server.asked
    with pytest.raises(StoreAwayError, match="after 1 attempt in"):  # nobody waits twice for the same outage
        storage.read_bytes(url_of(server))
    assert server.asked == asked + 1
    server.ailments = []
    assert storage.read_bytes(url_of(server)) == CONTENT
    server.ailments = [503]
    assert storage.read_bytes(url_of(server)) == CONTENT


def test_a_port_where_nobody_listens_passes_too(server):
    server.shutdown()
    server.server_close()
    with pytest.raises(StoreAwayError, match="does not answer"):
        storage.read_bytes(url_of(server))


def test_an_impatient_caller_tries_once(server):
    server.ailments = [503] * 9
    with patience.impatient(), pytest.raises(InputError):
        storage.read_bytes(url_of(server))
    assert server.asked == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_is_no_failure_of_a_store_goes_through(raised):
    calls = []

    def action() -> None:
        calls.append(1)
        raise raised

    with pytest.raises(raised):
        patience.patiently("place", action)
    assert calls == [1]


def test_an_interrupt_ends_the_waiting(monkeypatch):
    calls = []

    def action() -> None:
        calls.append(1)
        raise ConnectionResetError

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        patience.patiently("place", action)
    assert calls == [1]


def s3_error(code: str, status: int) -> Exception:
    """Return the error of an answer of S3, as s3fs raises it."""
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    answer = {"Error": {"Code": code, "Message": "…"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return translate_boto_error(ClientError(answer, "PutObject"))


@pytest.mark.parametrize(
    ("code", "status", "passes"),
    [
        ("SlowDown", 503, True),
        ("InternalError", 500, True),
        ("InternalError", 200, True),  # CompleteMultipartUpload begins its answer before it knows
        ("RequestTimeout", 400, True),
        ("ConditionalRequestConflict", 409, True),
        ("503", 503, True),
        ("NoSuchKey", 404, False),
        ("NoSuchBucket", 404, False),
        ("AccessDenied", 403, False),
        ("SignatureDoesNotMatch", 403, False),
        ("ExpiredToken", 400, False),
        ("PreconditionFailed", 412, False),
        ("BucketAlreadyExists", 409, False),
    ],
)
def test_answers_of_s3(code, status, passes):
    assert patience.passes(s3_error(code, status)) is passes


def test_certificates_do_not_pass_and_broken_connections_do():
    from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError, SSLError

    url = "https://store"
    assert not patience.passes(SSLError(endpoint_url=url, error="certificate verify failed"))
    assert patience.passes(SSLError(endpoint_url=url, error="EOF occurred in violation of protocol"))
    assert patience.passes(EndpointConnectionError(endpoint_url=url))
    assert patience.passes(ReadTimeoutError(endpoint_url=url))
    assert not patience.passes(NoCredentialsError())
