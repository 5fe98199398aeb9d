#!/usr/bin/env python3
"""Soak: a hosted server with many callers and things going wrong, for as long as asked; then: was anything kept?

    packaging/soak/soak.py --server target/release/pipefy-mcp-server --pipefy target/release/pipefy --minutes 10

Starts a sandbox (Pipefy and issuer) and a hosted server as two processes on loopback. Callers sign in, open sessions, list,
read, write, cancel, hang up in the middle, send junk, listen and abandon; the sandbox's fault plan changes every 20 seconds.
Prints one line every ten seconds and a table at the end. Fails when a caller sees what belongs to another, when an answer
does not come, when a status is none of those that the server promises, or when sessions, calls, descriptors or memory do not
return. Needs Python 3.9 and nothing else.
"""

import argparse
import atexit
import collections
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

PEOPLE = ["ana.souza@aurora.example", "bruno.lima@aurora.example", "carla.dias@guest.example"]
PLANS = [
    ("nothing", {}),
    ("latency of 300 ms", {"latency_ms": 300}),
    ("half of all requests 503", {"rules": [{"endpoint": "graphql", "probability": 0.5, "status": 503, "retry_after": "1"}]}),
    ("a third of all connections dropped", {"rules": [{"endpoint": "graphql", "probability": 0.3, "drop": True}]}),
    ("answers of writes lost", {"rules": [{"root_field": "createComment", "after": True, "drop": True}]}),
    ("issuer's keys 500", {"rules": [{"endpoint": "jwks", "status": 500}]}),
    ("Pipefy answers after 40 s", {"rules": [{"endpoint": "graphql", "probability": 0.2, "latency_ms": 40000}]}),
    ("pages instead of JSON", {"rules": [{"endpoint": "graphql", "probability": 0.5, "status": 502, "body": "<html>bad gateway</html>"}]}),
]
# What the server may answer: served, refused for the message, the bearer or the session, too much at once, not now.
STATUSES = {200, 202, 400, 401, 404, 406, 408, 409, 413, 429, 503}
PATIENCE = 75


class Process:
    """A child whose standard error is read for an address and then kept in a file."""

    def __init__(self, command, environment, pattern, log):
        self.log = open(log, "w")
        self.child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL, text=True)
        atexit.register(self.child.kill)
        self.found = []
        wanted = list(pattern)
        while wanted:
            line = self.child.stdout.readline()
            if not line:
                sys.exit(f"{command[0]} ended; see {log}")
            self.log.write(line)
            match = re.search(wanted[0], line)
            if match:
                self.found.append(match.group(1))
                wanted.pop(0)
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.child.stdout:
            self.log.write(line)

    def end(self):
        self.child.terminate()
        try:
            return self.child.wait(30)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return None


class Soak:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="pipefy-soak-")
        bare = {"PATH": os.environ.get("PATH", ""), "HOME": self.folder}
        self.sandbox = Process([options.pipefy, "sandbox", "serve", "--port", "0", "--data", ":memory:"], bare,
                               [r"(http://127\.0\.0\.1:\d+)"], f"{self.folder}/sandbox.log")
        self.base = self.sandbox.found[0]
        server = dict(bare, PIPEFY_BASE_URL=self.base, PIPEFY_ALLOW_INSECURE_URLS="true", PIPEFY_MCP_PROFILE="remote",
                      PIPEFY_JWT_ISSUER_URL=f"{self.base}/realms/pipefy",
                      PIPEFY_MCP_RS_RESOURCE_SERVER_URL="https://mcp.example.com/mcp",
                      PIPEFY_MCP_METRICS_ADDRESS="127.0.0.1:0", PIPEFY_MCP_SESSION_IDLE_MINUTES="1",
                      PIPEFY_MCP_HEADER_TIMEOUT_SECONDS="10", PIPEFY_MCP_BODY_TIMEOUT_SECONDS="5",
                      PIPEFY_MCP_AUDIT_LOG=f"{self.folder}/audit.log", PIPEFY_MCP_AUDIT_REQUIRED="true")
        self.server = Process([options.server, "--port", "0"], server,
                              [r"Listening on (http://\S+)", r"Metrics on (http://\S+)"], f"{self.folder}/server.log")
        self.url = urllib.parse.urlsplit(self.server.found[0])
        self.metrics_url = self.server.found[1]
        self.counts = collections.Counter()
        self.wrong = []
        self.stop = threading.Event()
        self.samples = []
        self.plan = "nothing"
        self.pipes = {}

    # -- what the callers use

    def control(self, path, body):
        request = urllib.request.Request(f"{self.base}/_sandbox/{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def token(self, person, client):
        return self.control("oidc/tokens", {"person": person, "client_id": client, "expires_in": 240})["access_token"]

    def complain(self, text):
        self.counts["WRONG"] += 1
        if len(self.wrong) < 20:
            self.wrong.append(text)

    def send(self, method, body, bearer, session=None, hang_up=False):
        """Status, session id and message; None when hung up or refused a connection."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        if session:
            headers["Mcp-Session-Id"] = session
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=PATIENCE)
        try:
            connection.request(method, "/mcp", body, headers)
            if hang_up:
                time.sleep(random.random() / 5)
                return None
            answer = connection.getresponse()
            text = answer.read().decode()
        except socket.timeout:
            self.complain(f"no answer within {PATIENCE} s under {self.plan}: {str(body)[:120]}")
            return None
        except (OSError, http.client.HTTPException) as error:
            self.complain(f"the connection broke: {error!r} under {self.plan}: {str(body)[:120]}")
            return None
        finally:
            connection.close()
        self.counts[f"HTTP {answer.status}"] += 1
        if answer.status not in STATUSES:
            self.complain(f"HTTP {answer.status}: {text[:200]}")
        message = {}
        for line in text.splitlines():
            line = line[6:] if line.startswith("data: ") else line
            if line.startswith("{"):
                message = json.loads(line)
        return answer.status, answer.headers.get("Mcp-Session-Id"), message

    def call(self, bearer, session, tool, arguments, number=1, **more):
        params = {"name": tool, "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        return self.send("POST", body, bearer, session, **more)

    def pipes_of(self, bearer, session):
        """What this caller may see; None when it could not be read."""
        answer = self.call(bearer, session, "search_pipes", {})
        result = (answer or (0, None, {}))[2].get("result")
        if not result or result.get("isError"):
            self.counts["tool: failed"] += 1
            return None
        found = json.loads(result["content"][0]["text"])
        if "organizations" not in found:
            self.counts["tool: failed"] += 1
            return None
        self.counts["tool: served"] += 1
        return {pipe["id"] for organization in found["organizations"] for pipe in organization["pipes"]}

    # -- the callers

    def caller(self, number):
        chance = random.Random(number)
        person = PEOPLE[number % len(PEOPLE)]
        while not self.stop.is_set():
            try:
                self.visit(chance, person, f"client-{number}")
            except Exception as error:  # A defect of this script must not pass as a quiet caller.
                self.complain(f"caller {number}: {error!r}")

    def visit(self, chance, person, client):
        bearer = self.token(person, client)
        hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}})
        answer = self.send("POST", hello, bearer)
        if not answer or answer[0] != 200:
            time.sleep(0.5)
            return
        session = answer[1]
        self.counts["sessions opened"] += 1
        for step in range(chance.randrange(3, 25)):
            if self.stop.is_set():
                break
            self.step(chance, person, bearer, session, step)
            time.sleep(chance.random() / 4)
        # Most say goodbye; the rest are left to end by themselves.
        if chance.random() < 0.7 or self.stop.is_set():
            self.send("DELETE", None, bearer, session)
            self.counts["sessions closed"] += 1

    def step(self, chance, person, bearer, session, number):
        kind = chance.choices(["pipes", "list", "write", "cancel", "hang up", "junk", "stranger", "listen", "still", "half"],
                              [30, 4, 12, 6, 6, 5, 4, 4, 2, 2])[0]
        self.counts[f"step: {kind}"] += 1
        if kind == "pipes":
            seen = self.pipes_of(bearer, session)
            if seen is not None and seen != self.pipes[person]:
                self.complain(f"{person} was shown {sorted(seen)}")
        elif kind == "list":
            body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
            self.send("POST", body, bearer, session)
        elif kind == "write":
            self.call(bearer, session, "add_card_comment", {"card_id": self.card, "text": f"soak {person}"})
        elif kind == "cancel":
            body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}})
            later = threading.Timer(0.1, self.send, ("POST", body, bearer, session))
            later.start()
            self.call(bearer, session, "search_pipes", {}, number=77)
            later.join()
        elif kind == "hang up":
            self.call(bearer, session, "search_pipes", {}, hang_up=True)
        elif kind == "junk":
            junk = chance.choice(["{", "[]", "\x00", '{"jsonrpc":"2.0","id":1}', "{" * 3000, "x" * 100_000, '{"a":' * 5000])
            self.send("POST", junk, bearer, session)
            self.send("POST", junk, chance.choice([None, "nonsense", bearer[:-4]]), None)
        elif kind == "stranger":
            other = self.token(PEOPLE[(PEOPLE.index(person) + 1) % len(PEOPLE)], "client-0")
            answer = self.send("POST", '{"jsonrpc":"2.0","id":1,"method":"ping"}', other, session)
            if answer and answer[0] not in (401, 404, 429, 503):
                self.complain(f"a stranger used a session: {answer}")
        else:
            self.raw(kind, bearer, session)

    def raw(self, kind, bearer, session):
        head = (f"Host: {self.url.netloc}\r\nAuthorization: Bearer {bearer}\r\nMcp-Session-Id: {session}\r\n"
                "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n")
        with socket.create_connection((self.url.hostname, self.url.port), timeout=PATIENCE) as peer:
            if kind == "listen":
                peer.sendall(f"GET /mcp HTTP/1.1\r\n{head}\r\n".encode())
                time.sleep(0.5)
            elif kind == "still":
                body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
                one = f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
                peer.settimeout(1)
                try:
                    peer.sendall(one * 60)
                except OSError:
                    pass
                time.sleep(6)
            else:
                peer.sendall(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: 100\r\n\r\n{{".encode())
                peer.shutdown(socket.SHUT_WR)
                time.sleep(0.2)

    # -- looking

    def metric(self, page, name):
        match = re.search(rf"^{name} (\S+)$", page, re.M)
        return int(float(match.group(1))) if match else 0

    def look(self):
        with urllib.request.urlopen(self.metrics_url, timeout=30) as answer:
            page = answer.read().decode()
        process = f"/proc/{self.server.child.pid}"
        status = open(f"{process}/status").read()
        number = lambda name: int(re.search(rf"^{name}:\s+(\d+)", status, re.M).group(1))
        return {"resident": number("VmRSS") // 1024, "most": number("VmHWM") // 1024, "threads": number("Threads"),
                "descriptors": len(os.listdir(f"{process}/fd")), "sessions": self.metric(page, "pipefy_mcp_sessions"),
                "running": self.metric(page, "pipefy_mcp_tool_calls_running")}

    def note(self, begun, what):
        sample = dict(self.look(), at=round(time.monotonic() - begun), plan=what)
        self.samples.append(sample)
        print(f"{sample['at']:4} s  {sample['resident']:4} MiB  {sample['descriptors']:4} descriptors  "
              f"{sample['sessions']:4} sessions  {sample['running']:3} running  {what}", flush=True)
        return sample

    def run(self):
        for person in PEOPLE:
            bearer = self.token(person, "client-0")
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}}
            session = self.send("POST", json.dumps(hello), bearer)[1]
            self.pipes[person] = self.pipes_of(bearer, session)
            self.send("DELETE", None, bearer, session)
        if len({frozenset(seen) for seen in self.pipes.values()}) < 2:
            sys.exit("all people see the same: nothing could be mixed up")
        query = json.dumps({"query": "{ organizations { pipes { phases { cards(first: 1) { edges { node { id } } } } } } }"})
        request = urllib.request.Request(f"{self.base}/graphql", query.encode(), {
            "Content-Type": "application/json", "Authorization": "Bearer sandbox-token-admin"})
        with urllib.request.urlopen(request) as answer:
            self.card = re.search(r'"node":\s*\{"id":\s*"(\w+)"', answer.read().decode()).group(1)

        begun = time.monotonic()
        callers = [threading.Thread(target=self.caller, args=(number,), daemon=True) for number in range(self.options.people)]
        for caller in callers:
            caller.start()
        end = begun + self.options.minutes * 60 - 80
        turn = 0
        while time.monotonic() < end:
            self.plan, plan = PLANS[turn % len(PLANS)]
            self.control("faults", plan)
            for _ in range(2):
                time.sleep(10)
                self.note(begun, self.plan)
            turn += 1
            if turn == 1:
                self.control("oidc/keys", {})
        self.control("faults", {})
        self.plan = "nothing"
        self.stop.set()
        for caller in callers:
            caller.join(PATIENCE + 15)
        if any(caller.is_alive() for caller in callers):
            self.complain("a caller never came back")
        # Sessions that were abandoned end after a minute of silence.
        quiet = time.monotonic() + 150
        last = self.note(begun, "callers gone")
        while time.monotonic() < quiet and (last["sessions"] or last["running"] or last["descriptors"] > self.idle()):
            time.sleep(10)
            last = self.note(begun, "callers gone")
        self.judge(last)
        code = self.server.end()
        if code != 0:
            self.complain(f"the server ended with {code}")
        self.sandbox.end()
        self.report(last)
        return 1 if self.wrong else 0

    def idle(self):
        return self.options.descriptors

    def judge(self, last):
        early = max(sample["resident"] for sample in self.samples if sample["at"] <= 120)
        for what, value, limit in [("sessions", last["sessions"], 0), ("running calls", last["running"], 0),
                                   ("descriptors", last["descriptors"], self.idle()),
                                   ("MiB", last["resident"], early * 5 // 4 + 16)]:
            if value > limit:
                self.complain(f"{value} {what} are left, {limit} at most are expected")

    def report(self, last):
        print("\n| Seconds | Resident MiB | Descriptors | Threads | Sessions | Running | Fault |\n|---|---|---|---|---|---|---|")
        step = max(1, len(self.samples) // 16)
        for sample in self.samples[::step] + ([last] if (len(self.samples) - 1) % step else []):
            print("| {at} | {resident} | {descriptors} | {threads} | {sessions} | {running} | {plan} |".format(**sample))
        print(f"\nMost memory ever: {last['most']} MiB.")
        for name, count in sorted(self.counts.items()):
            print(f"{name}: {count}")
        print(f"\nLogs: {self.folder}")
        print("\nWRONG:\n" + "\n".join(self.wrong) if self.wrong else "\nNothing was kept, mixed up or left unanswered.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the pipefy-mcp-server to drive")
    parser.add_argument("--pipefy", required=True, help="the pipefy whose sandbox stands in for Pipefy and the issuer")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--people", type=int, default=24, help="callers at a time")
    parser.add_argument("--descriptors", type=int, default=40, help="descriptors that an idle server may hold")
    sys.exit(Soak(parser.parse_args()).run())


if __name__ == "__main__":
    main()
