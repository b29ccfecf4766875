import json
import threading
import urllib.error
import urllib.request

import pytest

from deploy.demo.stub import LookupServer


@pytest.fixture
def stub(tmp_path):
    with LookupServer(tmp_path / "lookups.jsonl") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", tmp_path / "lookups.jsonl"
        server.shutdown()
        thread.join()


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_known_number_in_the_query_gets_its_record_and_the_request_is_reported(stub):
    url, report = stub
    request = urllib.request.Request(f"{url}/lookup?phone=%2B12125550142", headers={"X-Key": "secret"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["name"] == "Alice Martin"

    (entry,) = entries(report)
    assert (entry["method"], entry["path"], entry["status"]) == ("GET", "/lookup", 200)
    assert entry["query"] == {"phone": "+12125550142"}
    assert entry["headers"]["x-key"] == "secret"


def test_a_known_number_in_a_json_body_gets_its_record(stub):
    url, report = stub
    body = json.dumps({"phone_number": "+12125550142"}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/x", data=body, method="POST")) as answer:
        assert answer.status == 200

    assert entries(report)[0]["body"] == body.decode()


def test_a_stranger_is_404_and_reported_too(stub):
    url, report = stub
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{url}/lookup?phone=%2B19999999999")
    error.value.close()

    assert error.value.code == 404
    assert entries(report)[0]["status"] == 404
