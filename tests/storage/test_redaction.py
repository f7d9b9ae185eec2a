import pytest

from sssp_pipeline.storage.redaction import error_text, redacted, without_password


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("s3://key:secret@bucket/part-?.gr", "s3://bucket/part-?.gr"),
        ("S3://key:secret@bucket/x", "S3://bucket/x"),
        ("s3://AKIA:wJalr/XUtn@bucket/x", "s3://bucket/x"),
        ("s3://AKIA:wJalr/XUtn@bucket/x@y", "s3://y"),  # a slash in the password: rather too little
        ("s3://[x", "s3://[x"),
        ("https://host/a.gr?signature=x", "https://host/a.gr"),
        ("HTTPS://ada@host/a.gr?signature=x", "HTTPS://host/a.gr"),
        ("https://host/a#access_token=x", "https://host/a"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("http://[::1]:80/x?signature=y", "http://[::1]:80/x"),
        ("generated:road?vertices=5", "generated:road?vertices=5"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("abfs://c@account/x?sv=1&sig=abc&se=2", "abfs://c@account/x?sv=1&sig=***&se=2"),
        ("sftp://ada@host/x", "sftp://host/x"),
        ("zip://a.txt::https://u:p@host/f.zip?signature=x", "zip://a.txt::https://host/f.zip"),
        ("simplecache::S3://key:secret@bucket/x", "simplecache::S3://bucket/x"),
        ("/plain/part-?.txt", "/plain/part-?.txt"),
        ("-", "standard input"),
        ("a\0b", "a\\0b"),
        ("a\ud800b", "a\\ud800b"),
    ],
)
def test_a_url_is_shown_without_its_secrets(given, shown):
    assert redacted(given) == shown


def test_an_error_text_is_one_line_without_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=abcdef==")
    monkeypatch.setenv("SOME_TOKEN", "no")
    said = "403, url='https://ada:pw@host/a.gr?signature=x'\n no: wJalrXUtnFEMI, AccountKey=abcdef=="
    assert error_text(RuntimeError(said)) == "403, url='https://host/a.gr' no: ***, ***"
    assert error_text("cannot open HTTPS://ada:pw@host/a.gr?signature=x") == "cannot open HTTPS://host/a.gr"
    assert error_text("no: Endpoint=sb;AccountKey=ghijkl==;x") == "no: Endpoint=sb;AccountKey=***;x"
    assert error_text(TimeoutError()) == "TimeoutError"
    assert error_text('could not connect to "http://10.0.0.1:9000/bucket"') == (
        'could not connect to "http://10.0.0.1:9000/bucket"'
    )


@pytest.mark.parametrize(
    "name", ["GITHUB_PAT", "API_KEY", "APIKEY", "azure_storage_key", "STORAGE_KEY_2", "DB_PWD", "MY_PASSWD"]
)
def test_secret_variables_are_known_by_their_names(monkeypatch, name):
    monkeypatch.setenv(name, "wJalrXUtnFEMI")
    assert error_text("said: wJalrXUtnFEMI!") == "said: ***!"
    assert redacted("https://host/wJalrXUtnFEMI/x") == "https://host/***/x"


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "PATHS", "KEYBOARD", "COMPAT", "PLACE"])
def test_other_variables_may_be_shown(monkeypatch, name):
    monkeypatch.setenv(name, "wJalrXUtnFEMI")
    assert error_text("said: wJalrXUtnFEMI!") == "said: wJalrXUtnFEMI!"


def test_the_path_of_a_key_file_may_be_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("TLS_CLIENT_KEY", str(tmp_path))
    assert error_text(f"`{tmp_path}` is damaged") == f"`{tmp_path}` is damaged"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ada:pw@host:/x", "host:/x"),
        ("ada:pw@host:x/y.csv", "host:x/y.csv"),
        ("ada:pw@host/x", "host/x"),
        ("//ada:pw@host/x", "//host/x"),
        ("ada:p:w@host:/x", "host:/x"),
        ("ada:p@w@host:/x", "host:/x"),
        ("ada:p/w@host:/x", "host:/x"),
        ("ada:@host:/x", "host:/x"),
        ("ada:pw@10.0.0.1:/x", "10.0.0.1:/x"),
        ("ada:pw@[::1]:/x", "[::1]:/x"),
        ("ada.l-o_v+e:pw@host.example.org:/x", "host.example.org:/x"),
    ],
)
def test_a_place_as_scp_writes_it_has_no_password(given, shown):
    assert redacted(given) == without_password(given) == shown
    assert error_text(f"`{given}` does not exist") == f"`{shown}` does not exist"
    assert error_text(f"--set graph.input={given}: no") == f"--set graph.input={shown}: no"


@pytest.mark.parametrize(
    "plain",
    ["ada@host:/x", "host:/x", "C:\\x@y\\z", "/a:b@c/x", "12:30 at ada@host", "a,b:c", "x@y:z", "./a:b@c/d"],
)
def test_places_without_a_password_stay(plain):
    assert redacted(plain) == without_password(plain) == error_text(plain) == plain
