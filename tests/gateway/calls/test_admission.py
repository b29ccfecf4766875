from gateway.calls.admission import Admission


def test_a_full_gateway_refuses_one_more():
    admission = Admission(2, {})
    admission.enter("a")
    admission.enter("b")

    assert admission.refusal("a") == "max_calls"

    admission.leave("b")
    assert admission.refusal("a") == ""


def test_a_full_trunk_does_not_hurt_another():
    admission = Admission(10, {"a": 1, "b": None})
    admission.enter("a")

    assert admission.refusal("a") == "trunk_max_calls"
    assert admission.refusal("b") == ""


def test_calls_of_ours_take_a_trunks_channels_as_well():
    dialled = {"a": 1}
    admission = Admission(10, {"a": 2}, lambda trunk: dialled.get(trunk, 0))
    assert not admission.is_full("a")

    admission.enter("a")
    assert admission.calls_on("a") == 2
    assert admission.is_full("a")
    assert admission.refusal("a") == "trunk_max_calls"
    assert not admission.is_full("b")

    dialled.clear()
    assert admission.refusal("a") == ""


def test_draining_refuses_everybody():
    admission = Admission(10, {})
    admission.draining = True

    assert admission.refusal("a") == "draining"


def test_a_new_configuration_goes_on_counting_running_calls():
    old = Admission(10, {})
    old.enter("a")
    new = Admission(1, {})
    new.adopt(old)

    assert new.active == 1
    assert new.refusal("a") == "max_calls"

    new.leave("a")
    assert new.refusal("a") == ""
