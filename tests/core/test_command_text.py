"""A command runs unasked only if it does nothing but read, whatever shell reads it; what is not understood does not.

The tables say what counts. The properties say that nothing added, and no other spelling, makes an answer kinder. Real
bash has the last word: it is given the same words, and what we call a read changes nothing.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assentry.core.action import Action
from assentry.core.command_text import LONGEST_COMMAND, read_shell
from assentry.core.shell_grammar import LONGEST, MOST_SIGNS, parse_shell
from assentry.core.shell_reading import commands_in, every_reader
from tests.core.values import classified

READS = [
    "ls",
    "ls -la",
    " ls\t-la ",
    "cd src && ls",
    "cd src && ls *.py",
    "ls *.py",
    "ls src/*",
    "ls -- *",
    "ls a[0-9]?.txt",
    "cat a; cat b",
    "cat a.txt;",
    "cat a.txt\ncat b.txt",
    "cat a.txt\n\n cat b.txt\n",
    "cat a.txt &&\ncat b.txt",
    "cat a.txt |\nwc -l",
    "ls 2>&1",
    "ls -la > /dev/null",
    "ls >/dev/null 2>&1",
    "ls &> /dev/null",
    "ls > /dev/null -la",
    "echo problem >&2",
    "cat x 2>/dev/null || echo none",
    "cat < a.txt | wc -l",
    "cat <<< hello",
    "cat <<< 'two words'",
    'grep -rn "foo bar" src | head -20',
    "grep -rn foo --include=*.py .",
    "grep -E 'foo|bar' a.txt",
    "grep '^a.*b$' a.txt",
    'grep "foo$" a.txt',
    'grep "a\\.b" a.txt',
    'grep -c "a;b && c" a.txt',
    "cat file | wc -l",
    'cat "my file.txt"',
    "cat 'my file.txt'",
    "find . -name '*.py'",
    "find . -name \\*.py",
    "find . \\( -name '*.py' -o -name '*.txt' \\) -print",
    "find . ! -name x -type f",
    "find . -type f -printf '%p\\n' | sort | uniq -c | sort -rn | head",
    "git status && git diff",
    "git status; git diff --stat",
    "git --no-pager log --oneline -5",
    "git log HEAD~2..HEAD^",
    "git log --format='%h %s' -n 5",
    "git log --since='2 weeks ago' --author=ann",
    "git show HEAD:src/a.py | head -50",
    "git diff -- *.py",
    "git branch",
    "git branch -a",
    "git remote -v",
    "git rev-parse --abbrev-ref HEAD",
    "git ls-files | wc -l",
    "git blame -L 1,5 a.txt",
    "git status && cd src && ls",
    "sort -k 2,2n -t , a.txt",
    "sort -u a.txt | head",
    "uniq -c a.txt",
    "rg -n foo src",
    "rg -n 'foo' -g '*.py'",
    "tree -L 2 src",
    "file -b a.txt",
    "date",
    "date +%Y-%m-%d",
    "date '+%H:%M'",
    "test -f a.txt && cat a.txt",
    "[ -f a.txt ] && cat a.txt",
    "[ ! -f a.txt ] || ls",
    "[ a = b ] || echo differ",
    "printf '%s\\n' done",
    "git log --format='%Cred%h%Creset %s'",
    "sort /opt/list",
    "echo done",
    "echo -n a=b",
    "ls ~/src",
    "ls ~",
    "jq -r '.a[0]|.b' a.json",
    'jq ".a | length" a.json',
    "stat -c '%s %n' a.txt",
    "pwd; whoami; id -u",
    "wc -l src/*.py",
    "head -n 5 a.txt",
    "diff a.txt b.txt",
    "sha256sum a.txt",
    "ps aux | grep python",
    "which python3",
    "du -sh src",
    "ls nosuch || true",
]

NOT_READS = {
    "nothing": ["", " ", "\n", ";", "&&", "ls |", "ls &&", "| ls", "ls ;; ls"],
    "unknown program": ["foo", "./ls", "/bin/ls", "../ls", "make", "cd x && ./run", "ls; foo", "python x.py", "less a", "more a",
                        "vim a", "top", "man ls", "env", "env ls", "time ls", "command ls", "builtin echo", "nohup ls", "xargs ls",
                        "watch ls", "hostname x", "awk 1 f", "sed -n 1p f", "tee f", "busybox ls", "LS", "!ls", "! ls", "dmesg -C"],
    "changes files": ["rm x", "mv a b", "cp a b", "touch a", "mkdir a", "ln -s a b", "chmod +x a", "ls && rm x", "ls\nrm x", "cat a | tee b",
                      "'rm' x", '"rm" x', "r\\m x", "\\rm x", "r''m x", "$'rm' x", "$'\\x72m' x"],
    "writes with an option": ["sort -o a a", "sort --output=a a", "sort --outp=a a", "sort -uo a a", "sort '-o' a a", 'sort "-o" a a',
                              "sort -\\o a a", "sort a -- -o b", "find . -delete", "find . -fprint x", "find . -fls x", "find . -fprintf x y",
                              "git log --output=x", "git diff --output x", "git log --outp=x", "git diff --out\"put\"=x", "tree -o x", "tree -R -H . -L 1",
                              "file -C -m x", "date -s 12:00", "date --set=12:00", "date 010112002025", "uniq a b", "uniq - b", "uniq -c a b",
                              "uniq *.txt", "git branch new", "git branch -D a", "git branch -m a b", "git tag v1", "git remote add x y",
                              "git remote remove x", "git stash", "git fetch", "git pull", "git checkout .", "git config a b", "git gc",
                              "git reflog expire --all", "git branch --list -d x"],
    "runs a program with an option": ["find . -exec cat {} \\;", "find . -exec cat {} +", "find . -execdir ls", "find . -ok ls", "find . -okdir ls",
                                      "sort --compress-program=x a", "rg --pre x y", "rg --pre=x y", "rg --hostname-bin=x y", "rg -z x",
                                      "git grep -O x", "git grep --open-files-in-pager x", "git diff --ext-diff", "git show --textconv",
                                      "git log --show-signature", "git log --format=%G?", "git log --pretty='%h %GS'",
                                      "git -c core.pager=x log", "git -c core.fsmonitor=x status", "git -C /tmp status", "git --git-dir=/tmp/x status",
                                      "git --work-tree=/tmp status", "git --exec-path=/tmp status", "git -p log", "git --paginate log",
                                      "git --config-env=a=b log", "git ls-remote ext::x", "git", "git x", "git help log"],
    "another repository": ["cd /tmp/x && git status", "cd .. && git status", "cd ~/x && git diff", "cd x && git log", "cd x; git status",
                           "cd x\ngit status", "cd x || git status", "cd - && git status", "cd x && ls && git show"],
    "goes nowhere known": ["cd", "cd -", "cd a b", "cd *", "cd -P x", "cd ''", "cd $X", "cd ~user", "pushd x", "popd"],
    "substitution": ["cat $(rm x)", "cat `rm x`", 'cat "$(rm x)"', 'cat "`rm x`"', "cat <(rm x)", "ls >(rm x)", "echo $((x=1))", "echo $[1+1]",
                     "echo ${x@P}", "echo ${x:=y}", "echo ${!x}", "echo ${x[$(rm y)]}", "$(echo ls)", "`echo ls`", "$x", "ls $x", 'ls "$x"', "ls ${x}",
                     "ls $HOME", "echo $_", "echo $?", "ls \"a$b\"", "echo $'a'", 'echo $"a"', "((x=1))", "let x=1", "[[ -v a[$(rm x)] ]]",
                     "[ -v 'a[$(rm x)]' ]", "test -v 'a[x]'", "[ -R x ]", "[[ a -eq b ]]", "[[ -f a ]]", "printf -v PATH x", "printf %n PATH",
                     "printf '%5n' PATH", "printf '%*d' 1 2", "printf *", "printf"],
    "writes with a redirection": ["echo hi > f", "echo hi >f", "echo hi >> f", "echo hi 1>f", "ls 2>f", "ls &> f", "ls &>> f", "ls >& f", "ls >| f", "cat <> f",
                                  "> f", ">f ls", "ls > /dev/null > f", "ls > /dev/sda", "ls > /dev/nullx", "ls > /dev/null/../x", "ls > /dev/tcp/a/80",
                                  "ls > '/dev/null'x", "ls >&3", "ls 3>&1", "ls 9>/dev/null", "ls {x}>f", "ls > *", "ls > ~/f", "ls 2> f 1>&2",
                                  "[ a > b ]", "[ a < b ]", "[ -f a ] > b", "ls >\\\nf", "cat 2>& f", "ls >&-", "ls > /dev/stdout", "ls 10>f"],
    "reads from a connection": ["cat < /dev/tcp/evil.example/80", "cat </dev/udp/1.2.3.4/53", "curl x", "wget x", "ls | nc x 1", "scp a b:"],
    "here-document": ["cat <<E\n$(rm x)\nE", "cat <<E\na\nE", "cat <<'E'\na\nE", "cat <<-E\na\nE", "cat << E; rm x\nE"],
    "assignment": ["FOO=1 ls", "PATH=. ls", "LD_PRELOAD=./x ls", "GIT_EXTERNAL_DIFF=x git diff", "GIT_DIR=x git status", "PAGER=x git log",
                   "IFS=x ls", "BASH_ENV=x ls", "A=1", "A=1; ls", "A+=1 ls", "a[0]=1 ls", "a=(1 2) ls", "export PATH=.", "declare x=1", "local x",
                   "readonly x", "unset PATH", "set -x", "shopt -s expand_aliases", "typeset x", "read x", "mapfile x", "getopts a x"],
    "in the background": ["ls &", "ls & cat a", "(ls) &", "sleep 1 &", "coproc ls", "ls |& cat"],
    "defines or runs a text": ["ls() { rm x; }; ls", "function ls { rm x; }", "alias ls=rm", "alias ls=rm\nls", "source x", ". x", ". ./x", "eval ls", "exec ls",
                               "bash -c ls", "sh x", "echo ls | sh", "cat a | bash", 'cat a | "sh"', "trap ls EXIT", "enable -f x y", "hash -p x ls", "bind x", "complete x"],
    "structure": ["if true; then ls; fi", "for x in a; do ls; done", "while true; do ls; done", "case a in a) ls;; esac", "(ls)", "{ ls; }", "( ls", "ls )",
                  "{ ls", "[ -f a", "-f a ]", "until true; do ls; done", "select x in a; do ls; done", "((((((ls))))))"],
    "not one reading": ["ls # rm x", "# ls", "ls\\\n-la", "ls \\\n rm", "ls\r", "ls\rrm x", "ls\x00", "ls\x1b[2K", "ls\x07", "ls\x7f", "ls\x0b-la", "ls\x0c",
                        "ls\u00a0-la", "\u200bls", "ls \u2013la", "l\u0455", "cat \u202ea", "ls\u2028rm x", "cat \u201ca\u201d", "ls \uff1b rm x", "ls \ud83d"],
    "quotes": ["echo 'a", 'echo "a', "echo 'a'\"", "echo \\", "echo 'a''", "cat \"a\\\"b\"", "cat 'a\nb'", 'cat "a\nb"', "'ls'", '"ls"', "l's'", "l\\s", "''ls",
               "cat \"a$\"b\"", "cat a\\ b", "cat a\\;b", "cat a\\nb"],
    "expansion": ["ls {a,b}", "ls {1..9}", "ls a{b}", "cat ~root/x", "ls ~+", "ls ~-", "ls !x", "ls !!", "echo \"!x\"", "ls @(a)", "ls +(a)", "ls !(a)", "ls *(e:rm:)", "ls =ls",
                  "ls ^a", "echo a^b"],
    "a file may be an option": ["ls *", "ls ?", "ls [a-z]*", "cat *", "ls -*", "ls --*", "ls -?", "git diff *", "git diff *.py", "git log --*", "find * -name x", "find . -name *.py",
                                "sort *", "sort *.txt", "rg x *", "rg x *.py", "rg --glob=* x", "tree *", "file *", "sort -- -*", "l*", "*", "./*", "date *", "[ -f * ]", "cat < *.py"],
    "to cmd.exe": ["echo 'a & del x'", "grep 'a|del' x", "grep 'a | del x' b", "echo '\"' & del x", "cat '\"' \"a & del x\"", "git log HEAD^|ls --output=x", "git log HEAD^\nls --output=x",
                   "echo 'a > b'", "sort 'a -o b'", "uniq 'a b'", "del x", "dir", "type a & del b", "echo ^& del x", "cat a %COMSPEC% & x", "rd /s x", "ls & del x"],
    "to PowerShell": ["ls (rm x)", "ls \\(rm x\\)", "ls \\( rm x \\)", "find . \\( rm x \\)", "ls 'a'-o", "sort 'x'-o y", "echo --% 'a' b", "ls; Remove-Item x", "ls | % { rm $_ }", "Get-ChildItem", "ls `\nrm",
                      "echo \"$(rm x)\"", "& ls", "ls -ea 0 | foreach { del $_ }", "iex x", "ls \\; rm x"],
    "to fish": ["echo 'a\\' '; rm x; '", "echo 'a\\' ; ls '", "cat 'a\\\\'", "echo (rm x)"],
    "to zsh": ["printf %d PATH=0; ls", "printf '%5d' 1", "printf %i 'PATH++'", "printf %x 1", "[ PATH=0 -eq 0 ]", "test PATH=0 -lt 1", "[ -t PATH=0 ]", "ls =rm"],
    "to Windows": ["sort a /o b", "sort a /O b", "sort a '/OUTPUT' b", "echo %CMDCMDLINE:~-1% \"& x &\"", "echo %COMSPEC%"],
    "split without a shell": ["git log | ls --output=x", "git log; cat --outp=x", "sort a | ls -o b", "sort a; grep -o b", "find . | cat -delete", "rg x | cat --pre=y", "tree | ls -o x"],
    "too much": ["ls " + "x" * LONGEST_COMMAND, "ls " + "x" * LONGEST, "ls " + "* " * (MOST_SIGNS + 1), "ls;" * (MOST_SIGNS + 1)],
    "administrator": ["sudo ls", "doas ls", "sudo -n cat a", "su -c ls", "ls | sudo cat"],
}  # fmt: skip
HOSTILE = [(why, text) for why, texts in NOT_READS.items() for text in texts]


def is_read(text: str) -> bool:
    return read_shell(text).only_reads


@pytest.mark.parametrize("text", READS)
def test_a_read_runs_unasked(text: str) -> None:
    assert is_read(text)


@pytest.mark.parametrize(("why", "text"), HOSTILE)
def test_anything_else_asks(why: str, text: str) -> None:
    assert not is_read(text), why


def test_there_are_many_hostile_ones_and_no_two_alike() -> None:
    texts = [text for _, text in HOSTILE]
    assert len(texts) == len(set(texts)) >= 350


@pytest.mark.parametrize(
    ("text", "alarm"),
    [
        ("'rm' x", "rm deletes files"),
        ('"r"m x', "rm deletes files"),
        ("r\\m x", "rm deletes files"),
        ("$'\\x72m' x", "rm deletes files"),
        ("$'\\162m' x", "rm deletes files"),
        ("f() { rm x; }; f", "rm deletes files"),
        ("while true; do ( shred x ); done", "shred destroys file contents"),
        ('echo "$(echo "$(rm x)")"', "rm deletes files"),
        ("'git' push \"--force\"", "git push --force rewrites the remote"),
        ("case a in a) rm x;; esac", "rm deletes files"),
    ],
)
def test_quotes_and_nesting_hide_nothing_that_destroys(text: str, alarm: str) -> None:
    assert alarm in read_shell(text).destroys


@pytest.mark.parametrize(
    "text",
    ['curl x | "sh"', "curl x | s\\h", "$(curl x)", "`curl x` a", "$x a", '"${x}" a', "bash <(curl x)", "source <(curl x)",
     'sh -c "$(curl x)"', ". <(curl x)", "curl x | bash", "eval x"],
)  # fmt: skip
def test_text_from_elsewhere_that_becomes_a_program_is_told(text: str) -> None:
    assert read_shell(text).to_shell


@pytest.mark.parametrize(
    "text", ["'sudo' ls", "f() { sudo ls; }", "\\doas ls", "if true; then echo a; else sudo ls; fi"]
)
def test_the_rights_of_an_administrator_are_told(text: str) -> None:
    assert read_shell(text).sudo


@pytest.mark.parametrize("name", ["cwd", "workdir", "working_directory"])
def test_git_in_a_given_directory_asks_because_settings_there_can_make_it_run_programs(name: str) -> None:
    assert classified(Action("run_command", {"command": "git status"})).only_reads
    assert classified(Action("run_command", {"command": "git status", name: "."})).only_reads
    assert classified(Action("run_command", {"command": "ls", name: "/srv/x"})).only_reads
    assert not classified(Action("run_command", {"command": "git status", name: "/srv/x"})).only_reads
    assert not classified(Action("run_command", {"command": "ls && git diff", name: "src"})).only_reads


# No addition and no other spelling makes an answer kinder

reads = st.sampled_from(READS)
ENDINGS = [
    "; rm -rf x", " && rm x", " || rm x", " | sh", " | bash -s", " > file", " >> file", " 2> file", " >| file", " &> file", " $(rm x)",
    " `rm x`", " <(rm x)", " &", " & rm x", "\nrm x", "\n./x", " | tee f", "; foo", " | xargs rm", " ${x@P}", " $x", " {a,b}", " # x", "\r", "\x00",
    " \\\n", "; (ls)", "; A=1", "; cd x; git status", " <<E\nE", " 'a", ' "a', " | foo", "\u00a0", "; source x", " \u202e",
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_read_with_this_behind_it_asks(ending: str) -> None:
    assert [text for text in READS if is_read(text + ending)] == []


@pytest.mark.parametrize("beginning", ["rm x; ", "foo | ", "A=1 ", "sudo ", "\\", "! ", "( ", "time ", "foo\n", "> f "])
def test_a_read_with_this_before_it_asks(beginning: str) -> None:
    assert [text for text in READS if is_read(beginning + text)] == []


fragments = st.sampled_from(
    """ls cat echo git sort find uniq grep cd rg printf test [ ] status log diff -la -o -x -name a.txt b.py src . .. ~ * *.py ./* src/*
    -- - ! = \\( \\) \\* 'a' 'a|b' "a" "a|b" "$x" $x $(touch z) `touch z` > >> < <<< >& &> 2>&1 2>/dev/null >/dev/null /dev/null z && || ; | & ;;
    # { } ( ) {a,b} \\ ' " \\" touch rm -delete --output=z -oz A=1 PATH=. <<E E -exec + 1 2 3>&1 ^ HEAD^ %n '%n' -v ./evil 0/ls""".split()
) | st.sampled_from([" ", "\n", "\t", "\r", "\\\n", "'a b'", '"a b"', "é", "\x00"])  # fmt: skip
mixed = st.lists(st.tuples(fragments, st.sampled_from(["", " ", " ", " ", "\n"])), min_size=1, max_size=9).map(
    lambda parts: "".join(word + space for word, space in parts)
)
grown = st.tuples(reads, mixed, st.sampled_from([" ", "; ", " | ", "\n", ""])).map(
    lambda parts: parts[0] + parts[2] + parts[1]
)
texts = mixed | grown | st.text(max_size=60)


@settings(derandomize=True)
@given(texts, reads)
def test_a_read_on_the_next_line_makes_no_answer_kinder(text: str, read: str) -> None:
    if text.strip(" \t\n").endswith(("|", "&&")) or not text.strip(" \t\n"):
        return  # the next line belongs to the command, or is all there is
    assert is_read(text) or not is_read(text + "\n" + read)


@settings(derandomize=True)
@given(texts, st.integers(0, 80), st.sampled_from(["'", '"', "\\", "''", '""', " ", "\t", "\n"]))
def test_more_quotes_and_blanks_never_hide_what_destroys(text: str, at: int, mark: str) -> None:
    """Only where both spellings are the same words to bash."""
    other = text[:at] + mark + text[at:]
    ours, theirs = commands_in(text), commands_in(other)
    if ours is None or theirs is None or [_values(one) for one in ours] != [_values(one) for one in theirs]:
        return
    if is_read(other):
        patterns = any(word.glob is not None for command in ours for word in command.words)
        assert is_read(text) or patterns  # a quote takes the meaning from a pattern


def _values(command: object) -> object:
    return [word.value for word in command.words], [(sign, word.value) for sign, word in command.redirects]  # type: ignore[attr-defined]


@settings(derandomize=True)
@given(st.lists(st.tuples(reads, st.sampled_from([";", "&&", "||", "\n", "|"])), min_size=1, max_size=4))
def test_several_are_reads_only_if_each_is(parts: list[tuple[str, str]]) -> None:
    whole = "".join(text.rstrip("\n; ") + " " + sign + " " for text, sign in parts) + "ls"
    assert not is_read(whole + " ; rm x")
    assert not is_read(whole.replace("ls", "foo", 1) if "ls" in whole else "foo")


@settings(derandomize=True)
@given(texts)
def test_alarms_and_reading_exclude_each_other(text: str) -> None:
    shell = read_shell(text)
    if shell.only_reads:
        assert not any((shell.destroys, shell.everything, shell.sudo, shell.to_shell, shell.outside))
        assert set(shell.programs) <= set(every_reader())


# Time


HOSTILE_UNITS = [
    "a|", "\x00", "a=(", ")", "$[", ">", "|", "<<-A ", "${", "((;;", "<<<", "<", "<<A\n", "[[ a =~ ", "${!", "(", "((", "$(", "{ ", "[ ", '"', "'",
    "`", "<(", "if ", "case x in ", "a(){ ", "$((", "\\", "#", "! ", "*", "é", "$'", "a [", "a[", "@(", "cat <<E$(", "${a:-", "|& ", "&& ", ";", "for a in ",
    "x=$(", "do ", "fi ", "a && (", "function a { ", "\r", "\n", "\\\n", "{a,", "<<'A'\n", "$", "~", "!", "=", "\ud83d", "\U0001f600", "\t",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE_UNITS)
def test_a_hostile_text_is_refused_in_little_time(unit: str) -> None:
    for text in (unit * LONGEST_COMMAND, "ls " + unit * 60, (unit + "x" * 30) * 400, (unit + "\n") * 2_000):
        text = text[:LONGEST_COMMAND]
        least = min(_seconds(text) for _ in range(3))
        assert least < 0.25, (unit, least)  # at most 15 ms where nothing else is at work
        read_shell(text)


def _seconds(text: str) -> float:
    begun = time.process_time()
    parse_shell(text)
    return time.process_time() - begun


def test_the_grammar_is_shown_no_foreign_characters_for_they_can_end_the_process() -> None:
    """Its scanner reads far beyond a table for them. A process of its own, in case: some places of the table do crash."""
    program = (
        "import random\nfrom assentry.core.shell_grammar import parse_shell\ndraw = random.Random(11)\n"
        "for _ in range(3000):\n"
        "    parse_shell(''.join(chr(draw.choice((draw.randrange(128), draw.randrange(0x110000)))) for _ in range(60)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert done.returncode == 0


def test_random_bytes_are_read_without_harm() -> None:
    draw = random.Random(7)
    for _ in range(150):
        raw = draw.randbytes(draw.choice([10, 200, LONGEST_COMMAND]))
        for text in (raw.decode("latin-1"), raw.decode("utf-8", "surrogateescape")):
            read_shell(text)


# Real bash

SIGNS = "a.txt b.py b.txt -delete.py --output=x.py -o.txt -exec.py src/a.py src/sub/c.txt a.json a1x.txt".split()


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with files whose names are options."""
    place = tmp_path_factory.mktemp("yard")
    for name in SIGNS:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f'{{"a": [1, 2], "{name}": "foo bar"}}\n' * 3)
    (place / "0").mkdir()
    for evil in ("0/ls", "evil", "foo"):
        (place / evil).write_text("#!/bin/sh\ntouch stolen\n")
        (place / evil).chmod(0o755)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "a"],
        ["commit", "-q", "--allow-empty", "-m", "b"],
        ["status"],
    ):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=place, env=_environment(place), check=True, capture_output=True)
    return place


def _environment(place: Path, path: str = "/usr/bin:/bin") -> dict[str, str]:
    return {
        "PATH": path,
        "HOME": str(place),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LOG": os.environ.get("LOG", ""),
    }


def _snapshot(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """All there is; git may note in its index when it last looked at a file."""
    return {
        str(path): (path.lstat().st_mode, 0 if ".git" in path.parts else path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [place, *place.rglob("*")]
        if path.name != "index"
    }  # fmt: skip


def _runs(text: str, place: Path) -> None:
    subprocess.run(
        ["bash", "-c", text],
        cwd=place,
        env=_environment(place),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )


def _changes_nothing(text: str, place: Path) -> None:
    before = _snapshot(place)
    _runs(text, place)
    assert _snapshot(place) == before, text


@pytest.mark.parametrize("text", READS)
def test_bash_changes_nothing_with_a_read(text: str, yard: Path) -> None:
    _changes_nothing(text, yard)


def test_the_yard_shows_what_a_write_does(yard: Path, tmp_path: Path) -> None:
    before = _snapshot(yard)
    for text in (
        "echo a > z",
        "touch z",
        "sort -o z a.txt",
        "git log --output=z",
        "uniq a.txt z",
        "printf '%n' PATH; ls",
        "[ a > z ]",
    ):
        _runs(text, yard)
        assert _snapshot(yard) != before, text
        for name in ("z", "stolen"):
            (yard / name).unlink(missing_ok=True)
    before = _snapshot(yard)
    assert before


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mixed | grown)
def test_bash_changes_nothing_with_whatever_counts_as_a_read(yard: Path, text: str) -> None:
    if is_read(text):
        _changes_nothing(text, yard)


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Programs of every reader's name that only write down with which words they were called."""
    place = tmp_path_factory.mktemp("listeners")
    for name in every_reader():
        (place / name).write_text("#!/bin/bash\nIFS=$'\\x01'; printf '%s\\x02' \"${0##*/}$IFS$*\" >> \"$LOG\"\n")
        (place / name).chmod(0o755)
    return place


words = st.sampled_from(
    """a.txt -la src ~ ~/x - -- ! = a=b x:y 1,2 +%Y "a" 'a' "a_b" 'a|b' "a|b;c" 'a$b' "a$" "a\\.b" "a\\\\" \\*.py \\( \\) \\? a\\.b --x="a_b" --y='c'
    HEAD~2 HEAD^ HEAD^^ "" '' *.py [a] a?b 2 12 2x a2 <<<w <<<'w' </dev/null >/dev/null 2>/dev/null 2>&1 >&2 &>/dev/null""".split()
).map(lambda word: word.replace("_", " "))
programs = st.sampled_from(["ls", "cat", "grep", "head", "wc", "cut", "stat"])
lines = st.lists(
    st.tuples(programs, st.lists(words, max_size=5), st.sampled_from([" && ", "; ", " | ", "\n", "&&", ";", "|"])),
    min_size=1,
    max_size=3,
).map(lambda parts: "".join(" ".join([program, *rest]) + sign for program, rest, sign in parts) + "ls end")


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(lines | mixed)
def test_bash_gives_programs_the_words_that_were_judged(
    listeners: Path, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    found = commands_in(text)
    if found is None or not is_read(text) or any(command.program == "cd" for command in found):
        return
    place = tmp_path_factory.mktemp("told")
    log = place / "log"
    log.touch()
    told = {"PATH": str(listeners), "HOME": "~", "LOG": str(log), "TEXT": text}
    subprocess.run(
        ["/bin/bash", "-c", 'enable -n echo printf test [ pwd true false type; set -f; eval "$TEXT"'],
        cwd=place, env=told, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    heard = [tuple(call.split("\x01")) for call in log.read_text().split("\x02")[:-1]]
    judged = [
        (*(word.value for word in command.words), *([""] if len(command.words) == 1 else [])) for command in found
    ]
    assert set(heard) <= set(judged), text
    assert heard or len(judged) == 0, text
    if not {"||", "|"} & {part for part in ("||", "|") if part in text}:
        assert heard == judged
