import asyncio
import os
import threading
from pathlib import Path

import pytest

from gateway.store import knowledge as module
from gateway.store.knowledge import FolderKnowledge
from tests.tools.doubles import FakeSources, called, make_desk
from tools import AgentToolConfig, CallInvocationContext, ToolBuilders
from tools.ports import PortError
from tools.types import KnowledgeBaseInfo

DOCUMENTS = {
    "opening.md": """# Opening hours

We are open Monday to Friday from 9 am to 6 pm, on Saturday from 10 am to 2 pm.
On Sunday and on public holidays the shop is closed.
""",
    "refunds.md": """# Refund policy

You can return any item within 30 days for a full refund if it is unused.

## Damaged goods

If an item arrives damaged, send us a photo; we replace it free of charge.
""",
    "shipping.md": """# Shipping

Delivery inside the country takes two working days and costs 5 dollars. Orders above 50 dollars ship free.

## Abroad

We deliver to Canada and Mexico; it takes a week and costs 15 dollars.
""",
    "payment.txt": """You can pay by credit card, by bank transfer or in cash when you collect the order.

Invoices are sent by e-mail.
""",
    "parking.txt": "Customers park for free in the courtyard behind the house; the code is on the door.\n",
    "ru/adres.md": """# Адрес и проезд

Наш офис находится на улице Абая, дом 15, второй этаж. Вход со двора.
""",
    "ru/oplata.md": """# Оплата за газ

Оплатить газ можно через мобильное приложение, в кассе филиала или в банке.
Квитанция приходит до десятого числа.
""",
    "ru/avaria.md": """# Аварийная служба

При запахе газа закройте кран, откройте окна и звоните по номеру 104.
""",
    "ru/schetchik.md": """# Замена счётчика

Поверка счётчика проводится раз в восемь лет. Заявку на замену счётчика подайте по телефону.
""",
    "kk/tolem.md": """# Төлем жасау

Газ үшін төлемді мобильді қосымша арқылы немесе филиал кассасында жасауға болады.
""",
    "kk/mekenzhai.md": "# Мекенжай\n\nБіздің кеңсе Абай көшесі, 15-үйде, екінші қабатта орналасқан.\n",
}

ANSWERED = [
    ("what are your opening hours", "Opening hours"),
    ("When are you open on Saturday?", "Opening hours"),
    ("is the shop open on sunday", "Opening hours"),
    ("opening times", "Opening hours"),
    ("refund policy", "Refund policy"),
    ("refunds", "Refund policy"),
    ("can I return an item", "Refund policy"),
    ("my parcel arrived damaged", "Refund policy"),
    ("how much does delivery cost", "Shipping"),
    ("delivery to Canada cost", "Shipping"),
    ("do you ship to Mexico", "Shipping"),
    ("international shipping costs", "Shipping"),
    ("Can I pay with cash?", "payment"),
    ("payment by credit card", "payment"),
    ("how do I get an invoice", "payment"),
    ("where can customers park", "parking"),
    ("Где находится ваш офис?", "Адрес и проезд"),
    ("адрес офиса", "Адрес и проезд"),
    ("как оплатить газ", "Оплата за газ"),
    ("способы оплаты газа", "Оплата за газ"),
    ("запах газа что делать", "Аварийная служба"),
    ("номер аварийной службы", "Аварийная служба"),
    ("замена счетчика", "Замена счётчика"),
    ("когда поверка счётчика", "Замена счётчика"),
    ("газ үшін қалай төлеуге болады", "Төлем жасау"),
    ("төлем жасау қосымша", "Төлем жасау"),
    ("кеңсенің мекенжайы қайда", "Мекенжай"),
]

UNANSWERED = [
    "What is the capital of France?",
    "weather in London tomorrow",
    "who won the football match",
    "pizza toppings",
    "tell me a joke",
    "do you sell bicycles",
    "book a flight to Tokyo",
    "how tall is Mount Everest",
    "password reset",
    "warranty on laptops",
    "free tickets to the opera",
    "Какая погода завтра?",
    "кто президент Франции",
    "рецепт борща",
    "сколько стоит айфон",
    "Курс доллара",
    "ауа райы қандай",
    "hello",
    "who are you",
    "",
    "?!",
    '" OR NEAR( * : ^ -',
    "x" * 5_000,
]


@pytest.fixture
def folder(tmp_path):
    for name, text in DOCUMENTS.items():
        write(tmp_path / name, text)
    return tmp_path


@pytest.fixture
def store(folder):
    return FolderKnowledge({"handbook": folder})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def titles(store, *bases):
    return [info.documents for info in await store.describe(bases or ["handbook"])]


async def found(store, query, limit=3):
    return [hit.document for hit in await store.search(["handbook"], query, limit=limit)]


@pytest.mark.parametrize(("query", "document"), ANSWERED)
async def test_a_question_finds_the_document_that_answers_it(store, query, document):
    assert (await found(store, query))[0] == document


@pytest.mark.parametrize("query", UNANSWERED)
async def test_a_question_that_no_document_answers_finds_nothing(store, query):
    assert await found(store, query) == []


async def test_a_passage_has_its_heading_its_text_and_a_score(store):
    [hit] = await store.search(["handbook"], "delivery to Canada", limit=1)

    assert hit.document == "Shipping"
    assert hit.text == "Abroad\nWe deliver to Canada and Mexico; it takes a week and costs 15 dollars."
    assert 0.4 <= hit.score <= 1


async def test_the_best_passages_come_first_and_no_more_than_asked_for(store):
    hits = await store.search(["handbook"], "dollars delivery costs", limit=10)

    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) > 1
    assert await store.search(["handbook"], "dollars delivery costs", limit=1) == hits[:1]


async def test_every_document_is_listed_by_its_title_in_the_order_of_the_files(store):
    assert await store.describe(["handbook"]) == [
        KnowledgeBaseInfo(
            "handbook",
            (
                "Мекенжай", "Төлем жасау", "Opening hours", "parking", "payment", "Refund policy",
                "Адрес и проезд", "Аварийная служба", "Оплата за газ", "Замена счётчика", "Shipping",
            ),
        )
    ]  # fmt: skip


async def test_other_files_and_hidden_ones_are_no_documents(folder, store):
    for name in ("photo.jpg", "notes.md.bak", ".hidden.md", ".git/readme.md", "README"):
        write(folder / name, "# Secret plan\n\nbicycles")

    assert all("Secret plan" not in titles for titles in await titles(store))
    assert await found(store, "bicycles") == []


async def test_a_file_that_is_added_changed_or_removed_counts_from_the_next_question_on(folder, store):
    assert await found(store, "bicycles") == []

    write(folder / "bikes.md", "# Bicycles\n\nWe rent bicycles.")
    assert await found(store, "bicycles") == ["Bicycles"]
    assert "Bicycles" in (await titles(store))[0]

    write(folder / "bikes.md", "# Scooters\n\nWe rent scooters now.")
    assert await found(store, "bicycles") == []
    assert await found(store, "scooters") == ["Scooters"]

    (folder / "bikes.md").unlink()
    assert await found(store, "scooters") == []
    assert "Scooters" not in (await titles(store))[0]


async def test_a_change_of_the_same_length_is_seen(folder, store):
    write(folder / "a.md", "zebra")
    assert await found(store, "zebra") == ["a"]
    about = (folder / "a.md").stat()

    write(folder / "a.md", "okapi")
    os.utime(folder / "a.md", ns=(about.st_atime_ns, about.st_mtime_ns + 1))

    assert await found(store, "okapi") == ["a"]


async def test_only_changed_files_are_read_again(folder, store, monkeypatch):
    await titles(store)
    read = []
    real = Path.read_bytes

    def counting(path):
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", counting)
    await found(store, "opening hours")
    write(folder / "new.md", "# New")
    await titles(store)

    assert read == ["new.md"]


@pytest.mark.requirement("L-17")
async def test_a_document_that_is_added_to_the_folder_shows_in_the_next_call_s_session(tmp_path):
    for base, name in (("hotel", "Breakfast"), ("clinic", "Vaccines")):
        write(tmp_path / base / "one.md", f"# {name}\n\ntext")
    store = FolderKnowledge({base: tmp_path / base for base in ("hotel", "clinic")})
    sources = FakeSources(links={"desk": ("hotel",), "nurse": ("clinic",)}, knowledge=store)
    builders = ToolBuilders(sources)
    config = AgentToolConfig.model_validate({"query_knowledge": {"enabled": True}})

    async def description(agent):
        prepared = await builders.prepare_call(agent, "o", config, CallInvocationContext("c"))
        return prepared.definitions[0].description

    desk, nurse = await description("desk"), await description("nurse")
    write(tmp_path / "hotel" / "two.txt", "Pool: open all day.")
    later = await description("desk")

    assert "hotel: Breakfast" in desk
    assert "clinic: Vaccines" in nurse
    assert "two" not in desk
    assert "hotel: Breakfast; two" in later


@pytest.mark.requirement("D-4")
async def test_the_tool_answers_from_the_folder(store):
    sources = FakeSources(links={"desk": ("handbook",)}, knowledge=store)
    config = AgentToolConfig.model_validate({"query_knowledge": {"enabled": True}})
    prepared = await ToolBuilders(sources).prepare_call("desk", "o", config, CallInvocationContext("c"))
    dispatcher = make_desk(*prepared.tools).dispatcher

    batch = await dispatcher.run(
        [
            called("query_knowledge", '{"query": "When are you open on Saturday?"}', "1"),
            called("query_knowledge", '{"query": "What is the capital of France?"}', "2"),
        ]
    )

    answered, unanswered = batch.results
    assert answered.data["passages"][0]["document"] == "Opening hours"
    assert "10 am to 2 pm" in answered.data["passages"][0]["text"]
    assert unanswered.reason_code == "no_relevant_kb_result"


async def test_bases_are_kept_apart_and_searched_together(tmp_path):
    write(tmp_path / "a" / "one.md", "# Lions\n\nLions sleep.")
    write(tmp_path / "b" / "two.md", "# Tigers\n\nTigers swim and lions do not.")
    store = FolderKnowledge({"a": tmp_path / "a", "b": tmp_path / "b"})

    assert [hit.document for hit in await store.search(["a"], "tigers", limit=3)] == []
    assert [hit.document for hit in await store.search(["a", "b"], "lions", limit=3)] == ["Lions", "Tigers"]
    assert await titles(store, "b", "a") == [("Tigers",), ("Lions",)]


async def test_an_empty_folder_is_a_base_without_documents(tmp_path):
    store = FolderKnowledge({"handbook": tmp_path})

    assert await titles(store) == [()]
    assert await found(store, "anything") == []


async def test_a_base_that_is_not_configured_is_a_port_error(store):
    with pytest.raises(PortError, match="'prices' is not configured"):
        await store.describe(["prices"])
    with pytest.raises(PortError, match="'prices' is not configured"):
        await store.search(["handbook", "prices"], "x", limit=1)


async def test_a_folder_that_is_gone_is_a_port_error_until_it_is_back(folder, store):
    await titles(store)
    folder.rename(folder.with_name("elsewhere"))

    with pytest.raises(PortError, match="is not a folder"):
        await store.describe(["handbook"])
    with pytest.raises(PortError, match="is not a folder"):
        await store.search(["handbook"], "opening hours", limit=1)

    folder.with_name("elsewhere").rename(folder)
    assert await found(store, "opening hours", limit=1) == ["Opening hours"]


async def test_a_file_that_cannot_be_read_is_a_port_error_that_names_it(folder, store):
    (folder / "broken.md").mkdir()
    (folder / "dangling.md").symlink_to(folder / "nowhere.md")

    with pytest.raises(PortError, match=r"knowledge base handbook: .*\.md: "):
        await store.describe(["handbook"])


async def test_a_folder_below_that_cannot_be_opened_is_a_port_error_and_no_gap(folder, store, monkeypatch):
    real = os.scandir

    def failing(path):
        if Path(path).name == "kk":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", failing)

    with pytest.raises(PortError, match="kk: Permission denied"):
        await store.describe(["handbook"])


async def test_a_read_error_in_the_middle_is_a_port_error_and_is_tried_again(folder, store, monkeypatch):
    real = Path.read_bytes

    def failing(path):
        if path.name == "parking.txt":
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", failing)
        with pytest.raises(PortError, match=r"parking\.txt: Input/output error"):
            await store.search(["handbook"], "customers park", limit=1)

    assert await found(store, "customers park") == ["parking"]


async def test_a_folder_that_is_too_large_is_a_port_error(folder, store, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 10)
    with pytest.raises(PortError, match="larger than 10 bytes"):
        await store.describe(["handbook"])
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_FILES", 3)
    with pytest.raises(PortError, match="more than 3 documents"):
        await store.describe(["handbook"])


async def test_text_that_is_not_utf_8_is_read_as_far_as_it_goes(folder, store):
    (folder / "latin.txt").write_bytes("Das Café hat geöffnet, Eingang Nordseite.".encode("latin-1"))
    (folder / "bom.md").write_bytes("# Bookshop\n\nNovels.".encode("utf-8-sig"))

    assert await found(store, "Nordseite") == ["latin"]
    assert await found(store, "bookshop") == ["Bookshop"]


async def test_files_are_read_off_the_loop(folder, monkeypatch):
    threads = set()
    real = Path.read_bytes

    def where(path):
        threads.add(threading.current_thread())
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", where)
    await titles(FolderKnowledge({"handbook": folder}))

    assert threads
    assert threading.main_thread() not in threads


async def test_many_calls_may_ask_at_once_while_files_change(folder, store):
    answers = []

    async def ask(n):
        if n % 5 == 0:
            write(folder / f"new{n}.md", f"# Topic{n}\n\nAbout topic{n}.")
        answers.append(await found(store, "opening hours", limit=1))

    async with asyncio.TaskGroup() as group:
        for n in range(25):
            group.create_task(ask(n))

    assert answers == [["Opening hours"]] * 25
    assert len((await titles(store))[0]) == len(DOCUMENTS) + 5
