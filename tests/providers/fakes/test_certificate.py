"""A certificate of one's own."""

import datetime
import ssl
import stat

from cryptography import x509

from providers.fakes.certificate import own_certificate


def names_of(pair):
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return certificate, {str(name.value) for name in names}


def test_it_is_for_this_machine_and_can_be_trusted(tmp_path):
    pair = own_certificate(tmp_path / "new")
    certificate, names = names_of(pair)
    assert names == {"127.0.0.1", "localhost"}
    assert certificate.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        days=300
    )
    assert stat.S_IMODE(pair.private_key.stat().st_mode) == 0o600
    ssl.create_default_context(cafile=str(pair.certificate))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.certificate, pair.private_key)


def test_it_is_made_once(tmp_path):
    first = own_certificate(tmp_path).certificate.read_bytes()
    assert own_certificate(tmp_path).certificate.read_bytes() == first


def test_it_is_made_again_for_another_name_or_when_it_is_broken(tmp_path):
    first = own_certificate(tmp_path).certificate.read_bytes()
    pair = own_certificate(tmp_path, host="fake.example")
    assert pair.certificate.read_bytes() != first
    assert names_of(pair)[1] == {"127.0.0.1", "localhost", "fake.example"}
    pair.certificate.write_text("broken")
    assert names_of(own_certificate(tmp_path))[1] == {"127.0.0.1", "localhost"}
