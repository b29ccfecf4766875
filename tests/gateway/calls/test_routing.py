import pytest

from gateway.calls.routing import NotRouted, Routed, Router, clean

NUMBERS = {"+12125550100": "reception", "4012": "desk", "sales": "sales", "0112": "emergency"}


@pytest.fixture
def router():
    return Router(NUMBERS)


@pytest.mark.parametrize(
    "dialled",
    [
        "+12125550100",
        "12125550100",
        "0012125550100",
        "+1 (212) 555-0100",
        "+1.212.555.0100",
        "+12125550100;npdi;rn=+12125550000",
    ],
)
def test_every_spelling_of_a_number_reaches_its_agent(router, dialled):
    assert router.route(dialled) == Routed("+12125550100", "reception")


def test_a_number_with_leading_zero_is_not_taken_for_an_international_prefix(router):
    assert router.route("0112") == Routed("0112", "emergency")


def test_extensions_and_names_are_routed_as_they_are(router):
    assert router.route("4012") == Routed("4012", "desk")
    assert router.route("sales") == Routed("sales", "sales")


def test_the_to_header_is_asked_when_the_request_uri_is_unknown(router):
    assert router.route("trunk-1", "+12125550100") == Routed("+12125550100", "reception")


def test_an_unknown_number_names_the_nearest_configured_one(router):
    assert router.route("+12125550101") == NotRouted("+12125550101", "+12125550100")


def test_a_request_without_any_user_part_is_refused_without_a_guess(router):
    assert router.route("", "") == NotRouted("", "")


def test_a_prefix_of_a_number_is_not_the_number(router):
    assert isinstance(router.route("+1212555010"), NotRouted)
    assert isinstance(router.route("+121255501000"), NotRouted)


def test_separators_in_names_stay():
    assert clean("front-desk.2") == "front-desk.2"
