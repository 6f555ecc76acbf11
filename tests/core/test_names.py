"""Names are taken apart the same way whatever style they are written in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.names import LONGEST_NAME, VERBS, Family, base_form, singular, split_name, words


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("delete_files", "delete files"),
        ("deleteFiles", "delete files"),
        ("DeleteFiles", "delete files"),
        ("delete-files", "delete files"),
        ("files.delete", "files delete"),
        ("files/delete", "files delete"),
        ("files:delete", "files delete"),
        ("mcp__files__delete_many", "files delete many"),
        ("GmailSendEmail", "gmail send email"),
        ("listS3Buckets", "list s3 buckets"),
        ("HTTPGet", "http get"),
        ("getURLs", "get urls"),
        ("parseXMLFile2", "parse xml file2"),
        ("DELETE_ALL", "delete all"),
        ("deletefile", "delete file"),
        ("jobrun_createorupdate", "jobrun create or update"),
        ("ｄｅｌｅｔｅ_file", "delete file"),
        ("", ""),
        ("___", ""),
    ],
)
def test_every_casing_and_separator_gives_the_same_words(name: str, tokens: str) -> None:
    assert " ".join(split_name(name).tokens) == tokens


@pytest.mark.parametrize(
    ("name", "verbs", "family"),
    [
        ("search_emails", "search", Family.READ),
        ("list_deleted_files", "list", Family.READ),
        ("email_list", "list", Family.READ),
        ("merge_request_create", "create", Family.CREATE),
        ("get_or_create_user", "get create", Family.CREATE),
        ("find_and_delete_duplicates", "find delete", Family.REMOVE),
        ("list_create", "list create", Family.CREATE),
        ("list_refunds", "list", Family.READ),
        ("get_update_status", "get", Family.READ),
        ("BankManagerTransferFunds", "transfer", Family.CHANGE),
        ("StreetControlSearchRoutes", "search", Family.READ),
        ("HomeControlDevice", "control", Family.RUN),
        ("search.delete", "delete", Family.REMOVE),
        ("comment", "comment", Family.CREATE),
        ("job_run", "run", Family.START),
        ("frobnicate_widget", "", None),
        ("gеt_file", "", None),
    ],
)
def test_the_verbs_that_say_what_is_done_are_found(name: str, verbs: str, family: Family | None) -> None:
    parts = split_name(name)
    assert " ".join(parts.verbs) == verbs
    assert parts.family is family
    assert parts.verb == (verbs.split()[0] if verbs else None)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("delete_user_accounts", "account"),
        ("files.delete", "file"),
        ("send_message_to_channel", "message"),
        ("storage_blob_upload", "blob"),
        ("list_companies", "company"),
    ],
)
def test_the_head_noun_stands_last_and_singular(name: str, head: str) -> None:
    assert split_name(name).nouns[-1] == head


@pytest.mark.parametrize(
    ("plural", "one"),
    [
        ("files", "file"),
        ("addresses", "address"),
        ("entries", "entry"),
        ("boxes", "box"),
        ("status", "status"),
        ("access", "access"),
        ("analysis", "analysis"),
        ("gas", "gas"),
    ],
)
def test_plurals_become_singular_and_other_words_stay(plural: str, one: str) -> None:
    assert singular(plural) == one


@pytest.mark.parametrize(
    ("word", "verb"),
    [("deletes", "delete"), ("deleting", "delete"), ("modifies", "modify"), ("running", "run"), ("banana", None)],
)
def test_forms_of_a_verb_lead_back_to_it(word: str, verb: str | None) -> None:
    assert base_form(word) == verb


@given(st.text(max_size=2 * LONGEST_NAME))
def test_any_text_can_be_taken_apart(name: str) -> None:
    parts = split_name(name)
    assert all(verb in VERBS for verb in parts.verbs)
    assert (parts.family is None) == (not parts.verbs)
    assert all(token == token.lower() for token in parts.tokens if token.isascii())


@given(st.lists(st.sampled_from(["get", "users", "s3", "create", "report", "file"]), min_size=1, max_size=5))
def test_snake_kebab_camel_and_pascal_say_the_same(parts: list[str]) -> None:
    pascal = "".join(part.capitalize() for part in parts)
    styles = ["_".join(parts), "-".join(parts), pascal, pascal[0].lower() + pascal[1:]]
    assert {words(style) for style in styles} == {tuple(parts)}
