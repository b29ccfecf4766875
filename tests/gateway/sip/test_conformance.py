from tests.gateway.sip.conformance import PAGE, page


def test_the_page_says_what_the_user_agent_does():
    """Otherwise: python -m tests.gateway.sip.conformance."""
    assert PAGE.read_text() == page()
