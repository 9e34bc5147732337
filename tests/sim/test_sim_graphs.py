"""What works: capture, replay, update, pools, streams, random numbers, both compile backends; against CPU torch."""

from __future__ import annotations

import json

import pytest
from sim_harness import Script

pytestmark = [pytest.mark.sim]

THREADS = """
import threading
def in_thread(call):
    seen = []
    def body():
        torch.npu.set_device(0)
        try: call()
        except Exception as error: seen.append(str(error))
    t = threading.Thread(target=body); t.start(); t.join()
    return seen[0] if seen else ""
"""
MODEL = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
"""

# name -> script. The names are what a user would look for; several follow the scripts of the feasibility study.
TRAINING_ATTENTION = """
torch.manual_seed(4)
FA, GRAD = torch_npu.npu_fusion_attention_v3, torch_npu.npu_fusion_attention_grad_v3
def close(a, b): return torch.allclose(a.float().cpu(), b.float(), atol=2e-5, rtol=2e-5)
def reference(q, k, v, scale, mask=None, pse=None):
    # [B, N, S, D] with grouped heads; gradients by autograd
    q = q.double().requires_grad_()
    k, v = (t.double().requires_grad_() for t in (k, v))
    group = q.shape[1] // k.shape[1]
    score = q @ k.repeat_interleave(group, 1).transpose(-1, -2)
    if pse is not None: score = score + pse
    score = score * scale
    if mask is not None: score = score.masked_fill(mask, -float("inf"))
    return q, k, v, score, torch.softmax(score, -1) @ v.repeat_interleave(group, 1)
"""

WORKS = {
    "replay_follows_a_changing_input": Script(
        """
w = torch.randn(4, 4)
wn = w.npu()
g, y = capture(lambda: torch.relu(x @ wn + 1) * 3)
for seed in range(5):
    fresh = torch.randn(4, generator=torch.Generator().manual_seed(seed))
    x.copy_(fresh); g.replay()
    assert torch.allclose(y.cpu(), torch.relu(fresh @ w + 1) * 3, atol=1e-5)
"""
    ),
    "captured_work_does_not_run_before_replay": Script(
        """
g, y = capture(lambda: x * 2)
same(y, [-431602080.0] * 4)
g.replay(); same(y, [2.0] * 4)
"""
    ),
    "manual_capture_on_a_side_stream": Script(
        """
s, g = torch.npu.Stream(), torch_npu.npu.NPUGraph()
s.wait_stream(torch.npu.current_stream())
with torch.npu.stream(s):
    assert not torch.npu.is_current_stream_capturing()
    g.capture_begin()
    assert torch.npu.is_current_stream_capturing()
    y = x * 3
    g.capture_end()
for value in (1.0, 5.0, -2.0):
    x.fill_(value); g.replay(); same(y, [value * 3] * 4)
g.reset()
"""
    ),
    "make_graphed_callables_forward_and_backward": Script(
        MODEL
        + """
from copy import deepcopy
reference, graphed = deepcopy(model).train(), deepcopy(model).train().npu()
first = torch.randn(2, 8)
f = torch_npu.npu.make_graphed_callables(graphed, (first.npu().requires_grad_(),))
for seed in range(3):
    data = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
    a, b = data.clone().requires_grad_(), data.npu().requires_grad_()
    for p in (*reference.parameters(), *graphed.parameters()): p.grad = None
    out = f(b)
    assert torch.allclose(out.cpu(), reference(a), atol=1e-5)
    out.pow(2).sum().backward(); reference(a).pow(2).sum().backward()
    assert torch.allclose(b.grad.cpu(), a.grad, atol=1e-4)
    for p, q in zip(reference.parameters(), graphed.parameters()):
        assert torch.allclose(q.grad.cpu(), p.grad, atol=1e-4)
"""
    ),
    **{
        f"compile_with_{backend}": Script(
            MODEL
            + f"""
ours = __import__("copy").deepcopy(model).npu()
with torch.no_grad():
    f = torch.compile(ours, backend="{backend}", dynamic=False)
    for seed in range(4):
        data = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(f(data.npu()).cpu(), model(data), atol=1e-5)
"""
        )
        for backend in ("npugraphs", "npugraph_ex")
    },
    "graphs_that_share_a_pool": Script(
        """
pool = torch_npu.npu.graph_pool_handle()
graphs = [capture(lambda k=k: (x + k) * 2, pool=pool) for k in (1, 2, 3)]
reserved = torch.npu.memory_reserved()
more = [capture(lambda k=k: (x + k) * 2, pool=pool) for k in (4, 5)]
assert torch.npu.memory_reserved() == reserved
for g, y in graphs: g.replay(); print(y.cpu().tolist()[0])
""",
    ),
    "two_joined_streams": Script(
        """
s = torch.npu.Stream()
def body():
    a = x * 2
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): b = x * 3
    torch.npu.current_stream().wait_stream(s)
    return a + b
g, y = capture(body)
g.replay(); same(y, [5.0] * 4)
x.fill_(2.0); g.replay(); same(y, [10.0] * 4)
"""
    ),
    "random_numbers_follow_the_seed": Script(
        """
torch.npu.manual_seed(7)
eager = [torch.rand(8, device="npu").cpu() for _ in range(3)]
g, r = capture(lambda: torch.rand(8, device="npu"))
torch.npu.manual_seed(7)
for want in eager:
    g.replay(); assert torch.equal(r.cpu(), want)
"""
    ),
    "dropout_changes_from_replay_to_replay": Script(
        """
big = torch.ones(1000, device="npu")
g, y = capture(lambda: torch.nn.functional.dropout(big, 0.5, training=True))
g.replay(); a = y.cpu(); g.replay(); b = y.cpu()
assert not torch.equal(a, b) and set(a.tolist()) == {0.0, 2.0} and 400 < (a == 0).sum() < 600
"""
    ),
    "conditional_node_chooses_at_replay": Script(
        """
p = torch.zeros((), dtype=torch.bool, device="npu"); g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    y = x * 2
    g.begin_capture_to_if_node(p); y.add_(100); g.end_capture_to_conditional_node()
    z = y + 1
for flag, want in ((False, 3.0), (True, 103.0), (False, 3.0)):
    p.fill_(flag); g.replay(); same(z, [want] * 4)
"""
    ),
    "out_of_memory_in_a_capture_then_a_clean_capture": Script(
        """
def body(): return torch.empty(8 << 30, dtype=torch.uint8, device="npu")
raises("NPU out of memory. Tried to allocate 8.00 GiB", lambda: capture(body))
g, y = capture(lambda: x * 2)
g.replay(); same(y, [2.0] * 4)
"""
    ),
    "an_exception_of_the_user_then_a_clean_capture": Script(
        """
def body():
    x * 2
    raise ValueError("mine")
raises("mine", lambda: capture(body))
g, y = capture(lambda: x * 2)
g.replay(); same(y, [2.0] * 4)
"""
    ),
    "expandable_segments": Script(
        """
g, y = capture(lambda: torch.ones(1 << 21, device='npu') * 2)
g.replay(); assert y.sum().item() == 1 << 22
g.reset(); torch.npu.empty_cache()
""",
        env=(("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True"),),
    ),
    "task_group_update": Script(
        """
g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    s = torch.npu.current_stream(); y = x * 2
    torch_npu.npu.graph_task_group_begin(s); z = y + 1; handle = torch_npu.npu.graph_task_group_end(s)
    w = z * 10
g.replay(); same(w, [30.0] * 4)
u = torch.npu.Stream()
with torch.npu.stream(u):
    torch_npu.npu.graph_task_update_begin(u, handle); torch.add(y, 5, out=z); torch_npu.npu.graph_task_update_end(u)
torch.npu.synchronize(); g.replay(); same(w, [70.0] * 4)
"""
    ),
    "update_refreshes_attention_lengths": Script(
        """
torch.manual_seed(1)
q, k, v = (torch.randn(2, 4, n, 16) for n in (1, 12, 12))
def reference(lengths):
    out = torch.empty_like(q)
    for b, n in enumerate(lengths):
        out[b] = torch.nn.functional.scaled_dot_product_attention(q[b], k[b, :, :n], v[b, :, :n], scale=0.25)
    return out
qn, kn, vn = (t.half().npu() for t in (q, k, v))
def attend(lengths):
    return torch_npu.npu_fused_infer_attention_score(
        qn, kn, vn, num_heads=4, input_layout="BNSD", scale=0.25, actual_seq_lengths_kv=lengths)[0]
for lengths in ([12, 12], [3, 7]):
    assert torch.allclose(attend(lengths).float().cpu(), reference(lengths), atol=5e-3)
g, out = capture(lambda: attend([12, 12]), auto_dispatch_capture=True)
for lengths in ([12, 12], [1, 12], [5, 9]):
    g.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
    g.replay(); torch.npu.synchronize()
    assert torch.allclose(out.float().cpu(), reference(lengths), atol=5e-3), lengths
"""
    ),
    "update_refreshes_lengths_of_the_second_version": Script(
        """
torch.manual_seed(1)
q, k, v = (torch.randn(2, 4, n, 16) for n in (1, 12, 12))
def attend(lengths, *t):
    return torch_npu.npu_fused_infer_attention_score_v2(
        *t, num_query_heads=4, input_layout="BNSD", softmax_scale=0.25, actual_seq_kvlen=lengths)[0]
qn, kn, vn = (t.half().npu() for t in (q, k, v))
g, out = capture(lambda: attend([12, 12], qn, kn, vn), auto_dispatch_capture=True)
for lengths in ([12, 12], [1, 12], [5, 9]):
    g.update(cpu_update_input=[{"actual_seq_kvlen": lengths}])
    g.replay(); torch.npu.synchronize()
    for b, n in enumerate(lengths):
        want = torch.nn.functional.scaled_dot_product_attention(q[b], k[b, :, :n], v[b, :, :n], scale=0.25)
        assert torch.allclose(out[b].float().cpu(), want, atol=5e-3), lengths
"""
    ),
    "update_refreshes_lengths_of_latent_attention": Script(
        """
torch.manual_seed(3)
nope, rope = torch.randn(2, 4, 32), torch.randn(2, 4, 16)
ctkv, krope = torch.randn(6, 8, 1, 32), torch.randn(6, 8, 1, 16)
table = torch.tensor([[4, 1], [0, 5]], dtype=torch.int32)
def reference(lengths):
    out, lse = torch.empty_like(nope), torch.empty(2, 4, 1)
    for b, n in enumerate(lengths):
        rows = [(int(table[b, i // 8]), i % 8, 0) for i in range(n)]
        latent = torch.stack([ctkv[r] for r in rows]); turned = torch.stack([krope[r] for r in rows])
        score = (nope[b] @ latent.T + rope[b] @ turned.T) * 0.25
        out[b] = torch.softmax(score, -1) @ latent
        lse[b, :, 0] = torch.logsumexp(score, -1)
    return out, lse
args = [t.half().npu() for t in (nope, rope, ctkv, krope)] + [table.npu()]
close = lambda a, b: torch.allclose(a.float().cpu(), b, atol=5e-3, rtol=5e-3)
mla = torch_npu.atb.npu_multi_head_latent_attention
for lengths in ([11, 5], [1, 16]):
    assert close(mla(*args, lengths, 4, 0.25, 1), reference(lengths)[0])
out, lse = mla(*args, [11, 5], 4, 0.25, 1, True, calc_type="calc_type_ring")
assert close(out, reference([11, 5])[0]) and close(lse, reference([11, 5])[1])
out = torch.empty(2, 4, 32, dtype=torch.float16).npu()
g, _ = capture(lambda: mla(*args, [16, 16], 4, 0.25, 1, output=out), auto_dispatch_capture=True)
for lengths in ([16, 16], [1, 9], [5, 2]):
    g.update(cpu_update_input=[{"context_lens": lengths}])
    g.replay(); torch.npu.synchronize()
    assert close(out, reference(lengths)[0]), lengths
"""
    ),
    "training_attention_and_its_gradient_in_every_layout": Script(
        TRAINING_ATTENTION
        + """
B, N, K, S, T, D = 2, 4, 2, 5, 7, 8
q, k, v, dy = torch.randn(B, N, S, D), torch.randn(B, K, T, D), torch.randn(B, K, T, D), torch.randn(B, N, S, D)
causal = ~torch.ones(S, T, dtype=torch.bool).tril(T - S)
pack = {"BNSD": (lambda t: t), "BSND": lambda t: t.transpose(1, 2), "BSH": lambda t: t.transpose(1, 2).flatten(2), "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2)}
for layout, p in pack.items():
    for mask in (None, causal):
        pse = torch.randn(B, N, S, T) if layout == "BNSD" else None
        rq, rk, rv, score, out = reference(q, k, v, 0.3, mask, pse)
        out.backward(dy.double())
        qn, kn, vn = (p(t).contiguous().npu().requires_grad_() for t in (q, k, v))
        res = FA(qn, kn, vn, N, layout, scale=0.3, atten_mask=None if mask is None else mask.npu(), pse=None if pse is None else pse.npu())
        assert close(res[0].detach(), p(out.detach())), layout
        assert close(res[1][..., 0].detach(), score.max(-1)[0].detach()), layout
        res[0].backward(p(dy).contiguous().npu())
        for a, b in ((qn, rq), (kn, rk), (vn, rv)): assert close(a.grad, p(b.grad)), (layout, a.grad, b.grad)
"""
    ),
    "update_refreshes_lengths_of_training_attention_and_its_gradient": Script(
        TRAINING_ATTENTION
        + """
ql, kl = [3, 4, 9], [2, 7, 10]
N, K, D, TQ, TK = 4, 2, 8, 9, 10
q, dy = torch.randn(TQ, N, D), torch.randn(TQ, N, D); k, v = torch.randn(TK, K, D), torch.randn(TK, K, D)
def varlen(ql, kl):
    out, dq, dk, dv = torch.zeros_like(q), torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    qs = ks = 0
    for qe, ke in zip(ql, kl):
        part = [t[s:e].transpose(0, 1)[None] for t, s, e in ((q, qs, qe), (k, ks, ke), (v, ks, ke))]
        rq, rk, rv, _, o = reference(*part, 0.3)
        o.backward(dy[qs:qe].transpose(0, 1)[None].double())
        for target, value, s, e in ((out, o.detach(), qs, qe), (dq, rq.grad, qs, qe), (dk, rk.grad, ks, ke), (dv, rv.grad, ks, ke)):
            target[s:e] = value[0].transpose(0, 1)
        qs, ks = qe, ke
    return out, dq, dk, dv
L = lambda x: torch.tensor(x)
qn, kn, vn, dyn = (t.npu() for t in (q, k, v, dy))
qg, kg, vg = (t.clone().requires_grad_() for t in (qn, kn, vn))
res = FA(qg, kg, vg, N, "TND", scale=0.3, actual_seq_qlen=L(ql), actual_seq_kvlen=L(kl))
want = varlen(ql, kl)
assert close(res[0].detach(), want[0])
res[0].backward(dyn)
for a, b in zip((qg, kg, vg), want[1:]): assert close(a.grad, b)
g, res = capture(
    lambda: FA(qn, kn, vn, N, "TND", scale=0.3, actual_seq_qlen=L(ql), actual_seq_kvlen=L(kl)), auto_dispatch_capture=True)
for a, b in ((ql, kl), ([1, 5, 9], [3, 4, 10]), ([4, 8, 9], [1, 9, 10])):
    g.update(cpu_update_input=[{"actual_seq_qlen": L(a), "actual_seq_kvlen": L(b)}])
    g.replay(); torch.npu.synchronize()
    assert close(res[0], varlen(a, b)[0]), (a, b)
g, grads = capture(lambda: GRAD(
    qn, kn, vn, dyn, N, "TND", scale_value=0.3, softmax_max=res[1], softmax_sum=res[2], attention_in=res[0],
    actual_seq_qlen=L(ql), actual_seq_kvlen=L(kl)), auto_dispatch_capture=True)
for a, b in ((ql, kl), ([1, 5, 9], [3, 4, 10])):
    g.update(cpu_update_input=[{"actual_seq_qlen": L(a), "actual_seq_kvlen": L(b)}])
    g.replay(); torch.npu.synchronize()
    for x, y in zip(grads, varlen(a, b)[1:]): assert close(x, y), (a, b)
"""
    ),
    "replay_waits_for_a_later_update": Script(
        """
torch.manual_seed(1)
q, k, v = (torch.randn(1, 2, n, 16).half().npu() for n in (1, 8, 8))
def attend(n):
    return torch_npu.npu_fused_infer_attention_score(
        q, k, v, num_heads=2, input_layout="BNSD", scale=0.25, actual_seq_lengths_kv=[n])[0]
want = attend(3).cpu()
g, out = capture(lambda: attend(8), auto_dispatch_capture=True)
g.replay()                                              # as vLLM-Ascend: replay first, update while the graph waits
g.update(cpu_update_input=[{"actual_seq_lengths_kv": [3]}])
torch.npu.synchronize()
assert torch.equal(out.cpu(), want)
"""
    ),
    "paged_attention_with_block_table": Script(
        """
torch.manual_seed(2)
q = torch.randn(2, 4, 16); kc, vc = torch.randn(6, 8, 2, 16), torch.randn(6, 8, 2, 16)
table = torch.tensor([[4, 1], [0, 5]], dtype=torch.int32); lengths = torch.tensor([11, 5], dtype=torch.int32)
want = torch.empty_like(q)
for b in range(2):
    rows = [(int(table[b, i // 8]), i % 8) for i in range(int(lengths[b]))]
    keys, values = (torch.stack([c[r] for r in rows]).repeat_interleave(2, 1) for c in (kc, vc))
    score = torch.softmax(torch.einsum("hd,nhd->hn", q[b], keys) * 0.25, -1)
    want[b] = torch.einsum("hn,nhd->hd", score, values)
out = torch.zeros(2, 4, 16, dtype=torch.float16).npu()
torch_npu._npu_paged_attention(
    query=q.half().npu(), key_cache=kc.half().npu(), value_cache=vc.half().npu(), num_kv_heads=2, num_heads=4,
    scale_value=0.25, block_table=table.npu(), context_lens=lengths, out=out)
assert torch.allclose(out.float().cpu(), want, atol=5e-3)
"""
    ),
    "profiler_does_not_crash": Script(
        """
A = torch_npu.profiler.ProfilerActivity
with torch_npu.profiler.profile(activities=[A.CPU, A.NPU]) as p:
    y = x * 2; torch.npu.synchronize(); p.step()
same(y, [2.0] * 4)
"""
    ),
    "host_function_in_a_graph": Script(
        """
calls = []
def body():
    y = x * 2
    torch_npu.npu._launch_host_func(torch.npu.current_stream(), calls.append, y)
torch_npu.npu._subscribe_report(torch.npu.current_stream())
g, _ = capture(body)
assert not calls
g.replay(); torch.npu.synchronize(); g.replay(); torch.npu.synchronize(); assert len(calls) == 2
torch_npu.npu._unsubscribe_report(torch.npu.current_stream())
"""
    ),
    # Capture modes: what a second thread may do (hicann/runtime context_aclgraph.cc IsCaptureModeSupport).
    "global_mode_stops_other_threads": Script(
        THREADS
        + """
s, g = torch.npu.Stream(), torch_npu.npu.NPUGraph()
with torch.npu.stream(s):
    g.capture_begin(); y = x + 1
    assert 'error code is 107030' in in_thread(lambda: torch.ones(4).npu()), 'allowed'
    g.capture_end()
"""
    ),
    "thread_local_mode_leaves_other_threads_alone": Script(
        THREADS
        + """
s, g = torch.npu.Stream(), torch_npu.npu.NPUGraph()
with torch.npu.stream(s):
    g.capture_begin(capture_error_mode='thread_local'); y = x + 1
    assert in_thread(lambda: torch.ones(4).npu()) == ''
    raises('107030', lambda: torch.ones(4).npu())
    g.capture_end()
"""
    ),
    "relaxed_mode_allows_copies_on_other_streams": Script(
        THREADS
        + """
s, g = torch.npu.Stream(), torch_npu.npu.NPUGraph()
with torch.npu.stream(s):
    g.capture_begin(capture_error_mode='relaxed'); y = x + 1
    assert in_thread(lambda: torch.ones(4).npu()) == ''
    with torch.npu.stream(torch.npu.Stream()): t = torch.ones(4).npu()
    g.capture_end()
g.replay(); same(y, [2.0] * 4)
"""
    ),
    # The SoC and version that a script sees.
    "soc_and_version": Script(
        """
assert torch.npu.get_device_name(0) == 'Ascend910_9391', torch.npu.get_device_name(0)
assert torch.npu.device_count() == 3
assert torch.npu.get_device_properties(0).total_memory == 1024 << 20
""",
        ("--soc", "Ascend910_9391", "--devices", "3", "--memory", "1024"),
    ),
}


@pytest.mark.parametrize("script", WORKS.values(), ids=WORKS.keys())
def test_it_works(simulator, script: Script) -> None:
    outcome = simulator.run(script)
    assert outcome.code == 0, outcome.err[-3000:]


DUMP = Script(
    """
import os
g = torch_npu.npu.NPUGraph(); g.enable_debug_mode(); s = torch.npu.Stream()
with torch_npu.npu.graph(g):
    y = torch.relu(x * 2)
    s.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(s): z = y + 1
    torch.npu.current_stream().wait_stream(s)
g.debug_dump("graph.json")
print("FILES", sorted(n for n in os.listdir(".") if n.endswith(".json")))
print("JSON", " ".join(open("graph.json").read().split()))
"""
)


def test_the_debug_dump_is_valid_for_torch_npus_alignment(simulator) -> None:
    outcome = simulator.run(DUMP)
    assert outcome.code == 0, outcome.err[-2000:]
    assert "FILES ['graph.aligned.json', 'graph.json']" in outcome.out, outcome.text[-2000:]
    events = json.loads(next(line for line in outcome.out.splitlines() if line.startswith("JSON"))[5:])
    assert [e["name"].split("_")[0] for e in events].count("EVENT") == 4
    assert {"name", "ph", "ts", "dur", "pid", "tid", "args"} <= set(events[0])
