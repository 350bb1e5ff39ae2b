"""The price book: prices are never 0 by ignorance, every doubt is said, and a bad file names what is wrong."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.money.price_book import (
    BUNDLED,
    PriceBook,
    PriceOverride,
    import_table,
    open_book,
    parse,
    read_table,
)
from provisioner.types import Market
from windlass.base.errors import InvalidConfig

BOOK = PriceBook(table=read_table(BUNDLED))
FAMILIES = {
    "aws": "g4dn g5 g5g g6 g6e g7e p2 p3 p3dn p4d p5 p5e p5en p6-b200 t3 c5 m5 m6i",
    "gcp": "n1 n2 e2 c3 a2 a3 a4 g2 g4",
}


def _document(**changes: Any) -> dict[str, Any]:
    machine = {"gpus": 8, "usd_per_hour": {"r1": 10.0}}
    cloud = {"reference_region": "r1", "types": {"big": machine}}
    document = {"format": 1, "as_of": "2026-11-01", "source": "a test", "clouds": {"aws": cloud}}
    return {**document, **changes}


def test_the_bundled_table_is_small_dated_and_has_every_family() -> None:
    assert BUNDLED.stat().st_size < 200_000
    assert BOOK.table.as_of >= date(2025, 1, 1)
    for cloud, families in FAMILIES.items():
        known = {machine.family for machine in BOOK.table.clouds[cloud].types.values()}
        assert set(families.split()) <= known
    machine = BOOK.machine("aws", "p4d.24xlarge")
    assert machine is not None
    assert (machine.gpus, machine.gpu_model, machine.gpu_memory_mib) == (8, "A100", 40960)


def test_a_price_of_the_list_has_no_note() -> None:
    price = BOOK.price("aws", "us-east-1", "g5.xlarge")
    assert price.usd_per_hour == pytest.approx(1.006)
    assert price.note == ""
    assert price.as_of == BOOK.table.as_of


def test_a_region_without_a_list_price_says_that_it_is_estimated() -> None:
    price = BOOK.price("aws", "sa-east-1", "g5.xlarge")
    assert price.usd_per_hour == pytest.approx(1.006 * 1.8)
    assert "estimated from us-east-1" in price.note


def test_an_unknown_price_is_the_dearest_known_of_that_size_and_says_so() -> None:
    unknown = BOOK.price("aws", "us-east-1", "p9.48xlarge", gpus=8)
    eights = [
        max(machine.usd_per_hour.values())
        for machine in BOOK.table.clouds["aws"].types.values()
        if machine.gpus == 8 and machine.usd_per_hour
    ]
    assert unknown.usd_per_hour == max(eights)
    assert "no price is known" in unknown.note
    assert "8 GPUs" in unknown.note


def test_a_known_machine_without_a_price_counts_as_others_with_the_same_gpus() -> None:
    h200 = BOOK.price("aws", "us-east-1", "p5e.48xlarge")
    assert h200.usd_per_hour == BOOK.price("aws", "us-east-1", "p5en.48xlarge").usd_per_hour
    assert h200.note == "no price is known: counted as 8 H200 of p5en.48xlarge"
    one_of_eight = BOOK.price("gcp", "us-central1", "a3-highgpu-1g").usd_per_hour
    assert 8 * one_of_eight >= BOOK.price("gcp", "us-central1", "a3-highgpu-8g").usd_per_hour
    elsewhere = BOOK.price("gcp", "us-central1", "a4-highgpu-8g")
    assert elsewhere.note == "no price is known: counted as 8 B200 of p6-b200.48xlarge"


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("g6e.12xlarge", 100),
        ("g6e.24xlarge", 200),
        ("g6e.48xlarge", 400),
        ("p5en.48xlarge", 3200),
        ("p6-b200.48xlarge", 3200),
        ("g7e.48xlarge", 1600),
        ("g5g.xlarge", 1.25),
    ],
)
def test_networks_are_as_fast_as_aws_says(name: str, gbps: float) -> None:
    machine = BOOK.machine("aws", name)
    assert machine is not None
    assert machine.network_gbps == gbps


def test_a_spot_price_that_is_unknown_counts_as_on_demand() -> None:
    price = BOOK.price("aws", "us-east-1", "g5.xlarge", Market.SPOT)
    assert price.usd_per_hour == pytest.approx(1.006)
    assert "no spot price is known" in price.note


def test_gpus_that_are_added_to_a_machine_are_paid_for() -> None:
    alone = BOOK.price("gcp", "us-central1", "n1-standard-8")
    both = BOOK.price("gcp", "us-central1", "n1-standard-8", gpus=2, accelerator="nvidia-tesla-t4")
    assert both.usd_per_hour == pytest.approx(alone.usd_per_hour + 2 * 0.35)
    new = BOOK.price("gcp", "us-central1", "n1-standard-8", gpus=2, accelerator="nvidia-x")
    assert new.usd_per_hour > both.usd_per_hour
    assert "no price of nvidia-x is known" in new.note


@given(
    cloud=st.sampled_from(["aws", "gcp", "elsewhere"]),
    region=st.sampled_from(["us-east-1", "us-central1", "moon-1", ""]),
    instance_type=st.sampled_from(["p4d.24xlarge", "p5e.48xlarge", "n1-standard-4", "new.type"]),
    market=st.sampled_from(list(Market)),
    gpus=st.integers(0, 32),
)
def test_no_price_is_zero(
    cloud: str, region: str, instance_type: str, market: Market, gpus: int
) -> None:
    price = BOOK.price(cloud, region, instance_type, market, gpus=gpus)
    assert price.usd_per_hour > 0


def test_the_first_override_that_covers_counts_and_discounts_are_said() -> None:
    book = PriceBook(
        table=BOOK.table,
        overrides=(
            PriceOverride(instance_type="g5.xlarge", market=Market.SPOT, usd_per_hour=0.3),
            PriceOverride(cloud="aws", discount=0.25),
        ),
    )
    assert book.price("aws", "eu-west-1", "g5.xlarge", Market.SPOT).usd_per_hour == 0.3
    cheaper = book.price("aws", "us-east-1", "g5.xlarge")
    assert cheaper.usd_per_hour == pytest.approx(1.006 * 0.75)
    assert "discount of 25%" in cheaper.note
    assert book.price("gcp", "us-central1", "e2-small").note == ""


def test_an_old_book_warns_and_does_not_stop() -> None:
    assert BOOK.warnings(BOOK.table.as_of + timedelta(days=10)) == []
    (warning,) = BOOK.warnings(BOOK.table.as_of + timedelta(days=400))
    assert "400 days old" in warning
    assert "windlass master prices import" in warning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "the document"),
        (json.dumps(_document(format=2)), "format"),
        (json.dumps(_document(as_of="soon")), "as_of"),
        (json.dumps(_document(source="")), "source"),
        (json.dumps(_document(colour="red")), "colour"),
        (json.dumps(_document(clouds={})), "no usd_per_hour"),
    ],
)
def test_a_malformed_book_names_the_field(text: bytes | str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        parse(text, "price book x")


def test_a_price_of_zero_or_below_is_refused_where_it_stands() -> None:
    document = _document()
    document["clouds"]["aws"]["types"]["big"]["usd_per_hour"]["r1"] = 0
    with pytest.raises(InvalidConfig, match=r"clouds.aws.types.big.usd_per_hour.r1"):
        parse(json.dumps(document), "price book x")


def test_a_newer_table_is_imported_and_an_older_one_is_refused(tmp_path: Path) -> None:
    today = date(2026, 11, 20)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(_document()))
    import_table(file, tmp_path, today)
    book = open_book(tmp_path)
    assert book.table.as_of == date(2026, 11, 1)
    assert book.price("aws", "r1", "big").usd_per_hour == 10.0
    with pytest.raises(InvalidConfig, match="not newer than the prices in use"):
        import_table(file, tmp_path, today)
    file.write_text(json.dumps(_document(as_of="2027-01-01")))
    with pytest.raises(InvalidConfig, match="in the future"):
        import_table(file, tmp_path, today)


def test_a_malformed_table_in_the_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{}")
    with pytest.raises(InvalidConfig) as refused:
        open_book(tmp_path)
    assert str(tmp_path / "prices.json") in str(refused.value)
    assert any("as_of" in problem for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("market", "usd", "believed"),
    [
        (Market.ON_DEMAND, 1.2, True),
        (Market.ON_DEMAND, 10.0, True),
        (Market.ON_DEMAND, 10.1, False),
        (Market.ON_DEMAND, 0.1, False),
        (Market.SPOT, 0.1, True),
        (Market.SPOT, 0.01, False),
        (Market.SPOT, 11.0, False),
    ],
)
def test_what_no_machine_costs_is_not_believed(market: Market, usd: float, believed: bool) -> None:
    doubt = BOOK.doubt("aws", "us-east-1", "g5.xlarge", market, usd)
    assert (not doubt) is believed
    if doubt:
        assert doubt.endswith(
            f"for g5.xlarge in us-east-1 is not believed: the price book of {BOOK.table.as_of} has 1.006"
        )


def test_a_price_is_measured_in_its_region_and_only_if_the_machine_is_known() -> None:
    assert not BOOK.doubt("aws", "sa-east-1", "g5.xlarge", Market.ON_DEMAND, 18.0)
    assert BOOK.doubt("gcp", "us-central1", "nvidia-tesla-t4", Market.ON_DEMAND, 350.0)
    assert not BOOK.doubt("aws", "us-east-1", "p9.metal", Market.ON_DEMAND, 900.0)


def test_disks_cost_what_the_table_says_of_their_type_and_region() -> None:
    month = 730.0
    usd = BOOK.disk_usd_per_hour("aws", "us-east-1", "gp3", 100)
    assert usd * month == pytest.approx(8.0)
    assert BOOK.disk_usd_per_hour("aws", "sa-east-1", "gp3", 100) == pytest.approx(1.8 * usd)
    known = [BOOK.disk_usd_per_hour("gcp", "us-central1", x, 1) for x in ("pd-standard", "pd-ssd")]
    assert BOOK.disk_usd_per_hour("gcp", "us-central1", "pd-of-tomorrow", 1) == max(known)


def test_a_table_without_disks_makes_none_of_them_free() -> None:
    silent = PriceBook(table=parse(json.dumps(_document()), "a test"))
    said = _document()
    said["clouds"]["aws"]["disk_usd_per_gib_month"] = {"gp3": 0.5}
    told = PriceBook(table=parse(json.dumps(said), "a test"))
    assert silent.disk_usd_per_hour("aws", "r1", "gp3", 730) == pytest.approx(0.08)
    assert silent.disk_usd_per_hour("gcp", "us-central1", "pd-ssd", 730) == pytest.approx(0.17)
    assert told.disk_usd_per_hour("aws", "r1", "gp3", 730) == pytest.approx(0.5)
