from sssp_pipeline.pipeline.shown import redacted, told


def test_secrets_in_urls_are_cut():
    assert redacted("s3://key:secret@bucket/part-?.gr") == "s3://bucket/part-?.gr"
    assert redacted("https://host/a.gr?signature=x") == "https://host/a.gr"
    assert redacted("generated:road?vertices=5") == "generated:road?vertices=5"
    assert redacted("/plain/part-?.txt") == "/plain/part-?.txt"


def test_credentials_are_cut_but_places_are_not():
    assert redacted("abfs://container@account/x") == "abfs://container@account/x"
    assert redacted("sftp://ada@host/x") == "sftp://host/x"
    assert redacted("s3://[x") == "s3://[x"


def test_names_that_cannot_be_shown_as_they_are():
    assert redacted("-") == "standard input"
    assert redacted("a\0b") == "a\\0b"
    assert redacted("a\ud800b") == "a\\ud800b"


def test_what_a_library_says_is_told_in_one_line_without_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=abcdef==")
    monkeypatch.setenv("SOME_TOKEN", "no")
    said = "403, url='https://ada:pw@host/a.gr?signature=x'\n no: wJalrXUtnFEMI, AccountKey=abcdef=="
    assert told(RuntimeError(said)) == "403, url='https://host/a.gr' no: ***, ***"
    assert told(TimeoutError()) == "TimeoutError"
    assert told('could not connect to "http://10.0.0.1:9000/bucket"') == (
        'could not connect to "http://10.0.0.1:9000/bucket"'
    )
