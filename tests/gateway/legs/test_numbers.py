import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.legs.numbers import NumberPlan, PrefixRule, as_dialled


def e164(written, country="", *rules):
    return NumberPlan(country, [PrefixRule(*rule) for rule in rules]).read(written).e164


@pytest.mark.report("BR-187")
@pytest.mark.parametrize(
    ("country", "written", "expected"),
    [
        ("DE", "00919876543210", "+919876543210"),
        ("DE", "00493023125017", "+493023125017"),
        ("US", "011441632960123", "+441632960123"),
        ("DE", "+00493023125017", ""),
        ("DE", "03023125017", "+493023125017"),
        ("US", "00441632960123", ""),  # no such number exists, and 00 means nothing in the US
        ("US", "00442079460958", "+442079460958"),
        ("", "00493023125017", "+493023125017"),
        ("", "03023125017", ""),
        ("", "493023125017", ""),
    ],
)
def test_the_international_prefix_is_removed_before_the_country_is_used(country, written, expected):
    assert e164(written, country) == expected


@pytest.mark.report("BR-187")
def test_what_is_no_number_is_kept_as_it_was_written():
    read = NumberPlan("DE").read("+00493023125017")
    assert (read.written, read.best) == ("+00493023125017", "+00493023125017")


@pytest.mark.report("BR-187")
def test_a_rule_of_the_trunk_comes_before_the_country():
    assert e164("493023125017", "DE", ("49", "+49")) == "+493023125017"
    assert e164("493023125017", "", ("49", "+49")) == "+493023125017"
    assert e164("9493023125017", "US", ("949", "+49"), ("9", "")) == "+493023125017"
    assert e164("912025550100", "US", ("949", "+49"), ("9", "")) == "+12025550100"
    assert e164("493023125017", "", ("", "+")) == "+493023125017"
    assert e164("+493023125017", "", ("", "+")) == "+493023125017"


@pytest.mark.report("BR-193")
@pytest.mark.parametrize(
    ("country", "written", "expected"),
    [
        ("IT", "0612345678", "+390612345678"),
        ("IT", "+390612345678", "+390612345678"),
        ("FR", "0612345678", "+33612345678"),
        ("US", "0015551234", ""),
        ("RU", "89161234567", "+79161234567"),
        ("HU", "06301234567", "+36301234567"),
        ("MX", "+5215512345678", ""),
        ("AR", "+5491123456789", "+5491123456789"),
    ],
)
def test_zeros_go_and_stay_as_the_country_has_it(country, written, expected):
    read = NumberPlan(country).read(written)
    assert read.e164 == expected
    assert read.best == (expected or written)


@pytest.mark.report("BR-196")
@pytest.mark.parametrize(
    ("country", "written", "expected", "extension"),
    [
        ("", "+44 (0) 20 7946 0958", "+442079460958", ""),
        ("", "+1-202-555-0100 ext. 12", "+12025550100", "12"),
        ("", "+1.202.555.0100", "+12025550100", ""),
        ("", "tel:+1-202-555-0100;ext=12", "+12025550100", "12"),
        ("GB", "٠٢٠٧٩٤٦٠٩٥٨", "+442079460958", ""),
        ("", "＋12025550100", "+12025550100", ""),
        ("", "+1 202 555 O100", "", ""),
        ("US", "12025550100@trunk", "+12025550100", ""),
        ("", "+1\u00a0202\u2011555\u20110100", "+12025550100", ""),
        ("", "\u202a+12025550100\u202c", "+12025550100", ""),
        ("", "+1 202 555 010²", "", ""),
    ],
)
def test_separators_and_digits_of_any_script_are_read_and_letters_are_not(
    country, written, expected, extension
):
    read = NumberPlan(country).read(written)
    assert (read.e164, read.extension) == (expected, extension)
    assert read.written == written


@pytest.mark.parametrize("name", ["reception", "**1", "#*31#", "12-alice", "", "x200", "1800FLOWERS"])
def test_a_name_or_a_code_stays_what_it_is(name):
    read = NumberPlan("US").read(name)
    assert (read.e164, read.best) == ("", name)


@pytest.mark.parametrize(("country", "short"), [("DE", "200"), ("DE", "110"), ("US", "911"), ("DE", "4012")])
def test_an_extension_or_an_emergency_number_gets_no_country_code(country, short):
    assert NumberPlan(country).read(short).best == short


def test_a_local_number_without_its_area_is_not_completed():
    assert e164("5550100", "US") == ""


def test_dialled_is_without_separators_even_where_the_country_is_not_known():
    assert NumberPlan().read("(202) 555-0100").best == "2025550100"


@pytest.mark.parametrize(
    ("number", "form", "country", "expected"),
    [
        ("+493023125017", "plus", "DE", "+493023125017"),
        ("+493023125017", "digits", "", "493023125017"),
        ("+493023125017", "national", "DE", "03023125017"),
        ("+12025550100", "national", "DE", "0012025550100"),
        ("+493023125017", "national", "US", "011493023125017"),
        ("+12025550100", "national", "US", "2025550100"),
        ("+390612345678", "national", "IT", "0612345678"),
        ("+79161234567", "national", "RU", "89161234567"),
        ("200", "national", "DE", "200"),
        ("reception", "digits", "", "reception"),
        ("+999123", "national", "DE", "999123"),
    ],
)
def test_a_number_is_written_as_the_peer_wants_to_be_called(number, form, country, expected):
    assert as_dialled(number, form, country) == expected


@given(st.text(max_size=40), st.sampled_from(["", "DE", "US", "IT", "KZ"]))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_without_an_error_and_once_read_stays_the_same(text, country):
    plan = NumberPlan(country)
    read = plan.read(text)
    assert read.written == text.strip()
    if read.e164:
        assert plan.read(read.e164).e164 == read.e164
