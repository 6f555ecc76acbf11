"""Vague tasks lead to few and useful questions, precise ones to none, and no text leads to an error."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.ambiguity import REACHES, Appraisal, appraise
from assentry.core.run import Scope
from assentry.core.task_text import LONGEST_TASK


def asked(task: str, **more) -> list[str]:
    return [missing.what for missing in appraise(task, **more).missing]


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("Delete all old files", ["how old", "where"]),
        ("Delete old files in /srv/tmp", ["how old"]),
        ("Delete old *.log files in /srv", ["how old"]),
        ("I want all old logs deleted", ["how old", "where"]),
        ("Make sure that stale branches get removed", ["how old"]),
        ("Archive inactive accounts", ["how old"]),
        ("Find all old files and delete them", ["how old", "where"]),
        ("We had a problem with old accounts. Remove them.", ["how old"]),
        ("Please could you kindly go ahead and purge stale sessions?", ["how old"]),
        ("Move large files to /archive", ["how big"]),
        ("Delete all users", ["how many"]),
        ("DELETE ALL USERS", ["how many"]),
        ("Cancel all subscriptions", ["how many"]),
        ("Get rid of everything", ["how many"]),
        ("Send the newsletter to all customers", ["how many"]),
        ("Email everyone", ["how many"]),
        ("Delete all users\n\nContext: see report.pdf", ["how many"]),
        ("Delete\nall users", ["how many"]),
        ("Delete them", ["which"]),
        ("Delete customers", ["which"]),
        ("Delete 5 users", ["which"]),
        ("Delete some users", ["which"]),
        ("Drop a few tables", ["which"]),
        ("Drop the table", ["which"]),
        ("Remove unused dependencies", ["which"]),
        ("Remove duplicates from the customer table", ["which"]),
        ("Delete whatever isn't needed", ["which"]),
        ("Clean up", ["which"]),
        ("Tidy up my inbox", ["which"]),
        ("Clean up the repo", ["which"]),
        ("Do the usual", ["which"]),
        ("Fix it", ["which"]),
        ("Delete some users and drop a few tables", ["which", "which"]),
        ("Restart", ["which", "where"]),
        ("Deploy it", ["which", "where"]),
        ("Deploy the web app", ["where"]),
        ("Restart the server", ["where"]),
        ("Migrate the database", ["where"]),
        ("Refund the customer", ["amount"]),
        ("If a user complains, refund them", ["amount"]),
        ("Pay the supplier", ["amount"]),
        ("Transfer money to Ann", ["amount"]),
        ("Buy a laptop", ["amount"]),
        ("Send the report", ["who"]),
        ("Send the customer list", ["who"]),
        ("Notify them", ["who"]),
        ("Notify the relevant people", ["who"]),
        ("Let them know", ["who"]),
        ("Tell everyone that the office is closed", ["how many"]),
        ("Get those removed", ["which"]),
        ("Truncate the tables", ["which"]),
        ("Throw away the drafts we no longer need", ["which"]),
        ("Invite people to the workshop", ["who"]),
        ("Post the announcement", ["where"]),
        ("", ["which"]),
        (" \n -- ", ["which"]),
        ("Delete the big files, restart the server and notify everyone", ["how many", "how big", "where"]),
    ],
)
def test_a_vague_task_is_asked_about(task: str, what: list[str]) -> None:
    found = appraise(task)
    assert [missing.what for missing in found.missing] == what
    assert found.ambiguous
    assert found.reasons


@pytest.mark.parametrize(
    ("task", "reach"),
    [
        ("Delete /srv/tmp/a.log", "small"),
        ("Delete a.log, b.log and c.log", "small"),
        ("Delete users 17 and 18", "small"),
        ("Refund order 4711 with 12.50 EUR to the original card", "small"),
        ("Send the minutes in notes.md to ann@example.com", "small"),
        ("Send Ann the minutes", "small"),
        ("Restart the staging web server", "small"),
        ("Restart nginx on web-03.example.com", "wide"),
        ("Deploy version 1.4 to production", "wide"),
        ("If the tests pass, deploy to staging", "small"),
        ("Pay invoice 2024-17 of 300 EUR", "small"),
        ("Buy 3 licences of PyCharm", "small"),
        ("Transfer the file report.pdf to the archive", "small"),
        ("Delete all files in /srv/tmp older than 30 days", "wide"),
        ("Delete users older than 2 years", "wide"),
        ("Delete all *.tmp files in build/", "wide"),
        ("Remove the user with id 42", "small"),
        ("Remove the old navbar component", "small"),
        ("Use psql to drop the table tmp_users", "small"),
        ('Delete "everything old.txt"', "small"),
        ("Cancel the meeting with Bob on Friday", "small"),
        ("Post the release notes in #general", "small"),
        ("Email the team", "wide"),
        ("Clean up the code in main.py", "small"),
        ("Remove duplicate lines from names.txt", "wide"),
        ("Migrate the tests to pytest", "small"),
        ("Write a function to delete old files", "small"),
        ("Draft a small reply to the customer", "small"),
        ("Run the tests", "small"),
        ("Order the results by date", "wide"),
        ("Summarise recent emails and send the summary to ann@example.com", "small"),
    ],
)
def test_a_precise_task_is_not_asked_about(task: str, reach: str) -> None:
    found = appraise(task)
    assert found.missing == ()
    assert not found.ambiguous
    assert found.reach == reach


@pytest.mark.parametrize(
    "task",
    [
        "Find all old files",
        "List everything in the database",
        "Summarise recent emails",
        "Count inactive users",
        "Compare some options for the trip",
        "Show me big files",
        "Tell me which files are old",
        "Let me know which users are inactive",
        "Get all old invoices",
        "Explain how to delete all old files",
        'Explain "delete all users"',
        "How do I delete all users?",
        "What happened yesterday?",
        "Check which users are inactive and report the number",
        "Show the mail and message counts",
        "Do not delete anything, just list old files",
        "Never email customers. List the complaints.",
    ],
)
def test_a_task_that_only_reads_is_never_asked_about(task: str) -> None:
    found = appraise(task)
    assert (found.ambiguous, found.reach, found.missing) == (False, "reads", ())


@pytest.mark.parametrize(
    "task", ["Do not delete, purge or wipe old files", "Don’t send the report", "Lösche alle Dateien"]
)
def test_what_is_forbidden_or_not_understood_is_not_asked_about(task: str) -> None:
    assert asked(task) == []


@pytest.mark.parametrize(
    "task", ["Delete all users", "Delete all old files", "Clean up", "Email everyone", "Buy a laptop"]
)
def test_what_has_no_end_is_called_unbounded(task: str) -> None:
    assert appraise(task).reach == "unbounded"


def test_wishes_that_contradict_each_other_come_first_with_both_as_choices() -> None:
    found = appraise("Do a small cleanup of everything")
    assert found.missing[0].choices == ("small cleanup", "everything")
    assert "“small cleanup”" in found.missing[0].question


def test_a_question_quotes_the_vague_words_and_offers_answers() -> None:
    [old, _] = appraise("Delete all old files").missing
    assert "“Delete all old files”" in old.question
    assert "“old”" in old.question
    assert "older than 90 days" in old.choices


def test_a_question_says_what_a_pronoun_points_at() -> None:
    [which] = appraise("Look for unused buckets, then delete these").missing
    assert "“delete these” (that is, “unused buckets”)" in which.question


@pytest.mark.parametrize(
    ("task", "scope", "left", "reach"),
    [
        ("Delete all old files", Scope(limits={"files": Decimal(20)}), [], "wide"),
        ("Delete all old files", Scope(limits={"files": Decimal(5)}), [], "small"),
        ("Delete all old files", Scope(limits={"steps": Decimal(5)}), ["how old", "where"], "unbounded"),
        ("Delete all old files", Scope(limits={"files": Decimal("Infinity")}), ["how old", "where"], "unbounded"),
        ("Delete all old files", Scope(limits={"files": Decimal("NaN")}), ["how old", "where"], "unbounded"),
        ("Delete all old files", Scope(paths=("/srv/tmp",)), ["how old"], "wide"),
        ("Delete all files", Scope(paths=("/srv/tmp",)), [], "wide"),
        ("Delete all users", Scope(paths=("/srv/tmp",)), ["how many"], "unbounded"),
        ("Refund the customer", Scope(limits={"EUR": Decimal(50)}), [], "small"),
        ("Refund the customer", Scope(limits={"files": Decimal(50)}), ["amount"], "unbounded"),
        ("Send the report", Scope(recipients=("@example.com",)), [], "small"),
        ("Deploy the app", Scope(actions=("deploy_staging",)), [], "small"),
        ("Deploy the app", Scope(actions=("deploy",)), ["where"], "wide"),
    ],
)
def test_what_the_scope_answers_is_not_asked(task: str, scope: Scope, left: list[str], reach: str) -> None:
    found = appraise(task, scope=scope)
    assert [missing.what for missing in found.missing] == left
    assert found.reach == reach


def test_tools_lend_the_choices_and_tools_that_only_read_leave_nothing_to_ask() -> None:
    [where] = appraise("Deploy the app", tools=("deploy_staging", "deploy_prod")).missing
    assert where.choices == ("staging", "production")
    assert appraise("Delete all users", tools=("list_users", "get_user")).reach == "reads"
    assert asked("Delete all users", tools=("list_users", "delete_user")) == ["how many"]
    assert asked("Delete all users", tools=("query",)) == ["how many"]


WORDS = st.sampled_from(
    """delete remove all old files them it and then to the every small everything send refund deploy not , . " ' “ / *
    a.log 12 EUR ann@example.com unused clean up find be deleted get rid of do cleanup if whatever""".split()
)


def sound(found: Appraisal) -> None:
    assert len(found.missing) <= 3
    assert found.ambiguous == bool(found.missing)
    assert found.reach in REACHES
    assert found.reasons
    shown = [*found.reasons, *(missing.question for missing in found.missing)]
    assert all("\n" not in text and "\x1b" not in text and "\u202e" not in text for text in shown)
    assert all(len(text) < 2_000 for text in shown)


@given(st.text() | st.lists(WORDS, max_size=60).map(" ".join))
def test_any_text_has_an_appraisal_of_at_most_three_questions(task: str) -> None:
    sound(appraise(task))
    sound(appraise(task, tools=(task,), scope=Scope((task,), {task: Decimal(3)}, (task,), (task,))))


@pytest.mark.parametrize(
    "task",
    [
        "delete and " * 900,
        "“" * 4000,
        "'a " * 2000,
        "a\n" * 2000,
        "\ufdfa" * 4000,
        "delete all old it, " * 300,
        "\ud800 delete \udfff",
    ],
)
def test_hostile_text_is_read_in_bounded_time(task: str) -> None:
    sound(appraise(task))


def test_only_the_beginning_of_a_long_task_is_read_and_it_says_so() -> None:
    found = appraise("List the files. " + "x" * LONGEST_TASK + " Delete all users.")
    assert found.missing == ()
    assert found.reach == "wide"
    assert any("only its beginning" in reason for reason in found.reasons)


def test_characters_that_hide_do_not_hide_a_verb_nor_reach_the_question() -> None:
    found = appraise("Del\u200bete all\x1b users\u202e")
    assert found.ambiguous
    assert "\x1b" not in found.missing[0].question
