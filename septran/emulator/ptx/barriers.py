"""PTX of barriers, fences, votes, and of what has no effect on results."""

from __future__ import annotations

from septran.emulator.ptx.instructions import Instructions, PtxInstruction

INSTRUCTIONS = Instructions()


def _flag(condition: bool) -> str:
    return "true" if condition else "false"


@INSTRUCTIONS(r"mbarrier\.init(\.shared(::cta)?)?\.b64")
def _init(i: PtxInstruction) -> str:
    return f"emu::mbarrier_init({i.shared(0)}, {i.u32(1)});"


@INSTRUCTIONS(r"mbarrier\.inval(\.shared(::cta)?)?\.b64")
def _invalidate(i: PtxInstruction) -> str:
    return f"emu::mbarrier_invalidate({i.shared(0)});"


@INSTRUCTIONS(
    r"mbarrier\.arrive(\.expect_tx)?(\.(release|relaxed)\.(cta|cluster))?"
    r"(\.shared(::cta|::cluster)?)?\.b64"
)
def _arrive(i: PtxInstruction) -> str:
    first = 0 if i.operands[0].startswith("[") else 1
    rest = i.operands[first + 1 :]
    release = _flag(not i.has("relaxed"))
    lines = []
    count = i.u32(first + 1) if rest and not i.has("expect_tx") else "1"
    if i.has("expect_tx"):
        # PTX ISA, expect_tx: before the arrival, which could complete the phase without the bytes.
        lines.append(f"emu::mbarrier_expect({i.shared(first)}, {i.u32(first + 1)});")
    call = f"emu::mbarrier_arrive({i.shared(first)}, {count}, {release})"
    lines.append(i.set(0, call) if first else f"{call};")
    return " ".join(lines)


@INSTRUCTIONS(r"mbarrier\.expect_tx(\.relaxed\.(cta|cluster))?(\.shared(::cta|::cluster)?)?\.b64")
def _expect(i: PtxInstruction) -> str:
    return f"emu::mbarrier_expect({i.shared(0)}, {i.u32(1)});"


@INSTRUCTIONS(r"mbarrier\.complete_tx(\.relaxed\.(cta|cluster))?(\.shared(::cta|::cluster)?)?\.b64")
def _complete(i: PtxInstruction) -> str:
    return f"emu::mbarrier_complete({i.shared(0)}, {i.u32(1)});"


@INSTRUCTIONS(
    r"mbarrier\.(try_wait|test_wait)(\.parity)?(\.(acquire|relaxed)\.(cta|cluster))?"
    r"(\.shared(::cta)?)?\.b64"
)
def _wait(i: PtxInstruction) -> str:
    name = "wait" if i.has("try_wait") else "test"
    name += "" if i.has("parity") else "_state"
    phase = i.u32(2) if i.has("parity") else i.value(2, "uint64_t")
    acquire = _flag(not i.has("relaxed"))
    return i.set(0, f"emu::mbarrier_{name}({i.shared(1)}, {phase}, {acquire})")


@INSTRUCTIONS(r"cp\.async\.mbarrier\.arrive(\.noinc)?(\.shared(::cta)?)?\.b64")
def _arrive_copies(i: PtxInstruction) -> str:
    return f"emu::mbarrier_arrive_copies({i.shared(0)}, {_flag(i.has('noinc'))});"


@INSTRUCTIONS(r"(bar|barrier)(\.cta)?\.sync(\.aligned)?")
def _sync(i: PtxInstruction) -> str:
    if len(i.operands) > 1:
        return f"emu::barrier_of({i.u32(0)}, {i.u32(1)});"
    return f"emu::barrier_of({i.u32(0)}, emu::block_threads());"


@INSTRUCTIONS(r"(bar|barrier)(\.cta)?\.arrive(\.aligned)?")
def _bar_arrive(i: PtxInstruction) -> str:
    return f"emu::bar_arrive({i.u32(0)}, {i.u32(1)});"


@INSTRUCTIONS(r"(bar|barrier)(\.cta)?\.red\.(popc|and|or)(\.aligned)?\.(u32|pred)")
def _bar_vote(i: PtxInstruction) -> str:
    """A vote of all threads at barrier 0."""
    predicate = i.value(len(i.operands) - 1, "bool")
    if i.operands[1] != "0" or len(i.operands) > 3:
        raise i.fail("a vote at a barrier other than 0, or of some threads")
    if i.has("and"):
        return i.set(0, f"emu::block_vote(!({predicate})) == 0")
    return i.set(0, f"emu::block_vote({predicate}){' != 0' if i.has('or') else ''}")


@INSTRUCTIONS(r"bar\.warp\.sync")
def _warp_sync(i: PtxInstruction) -> str:
    return f"emu::warp_sync({i.u32(0)});"


@INSTRUCTIONS(r"barrier\.cluster\.arrive(\.release|\.relaxed)?(\.aligned)?")
def _cluster_arrive(i: PtxInstruction) -> str:
    return f"emu::cluster_arrive({_flag(not i.has('relaxed'))});"


@INSTRUCTIONS(r"barrier\.cluster\.wait(\.acquire)?(\.aligned)?")
def _cluster_wait(_: PtxInstruction) -> str:
    return "emu::cluster_wait(true);"


@INSTRUCTIONS(r"fence\.proxy\.async(\.(global|shared::(cta|cluster)))?")
def _proxy(i: PtxInstruction) -> str:
    # Of global memory nobody keeps who wrote it: docs/emulator.md, limits.
    return "emu::fence_proxy_async();" if not i.has("global") else ";"


@INSTRUCTIONS(r"griddepcontrol\.(wait|launch_dependents)")
def _dependence(_: PtxInstruction) -> str:
    # Kernels run one after another here: docs/emulator.md, limits.
    return ";"


@INSTRUCTIONS(r"fence\.mbarrier_init\.release\.cluster")
def _init_fence(_: PtxInstruction) -> str:
    return "emu::fence_barrier_init();"


@INSTRUCTIONS(
    r"(membar\.(cta|gl|sys)|fence(\.(sc|acq_rel|acquire|release))?(\.(cta|cluster|gpu|sys))?"
    r"|fence\.proxy\.(alias|tensormap\S*)|prefetch\S*|griddepcontrol\.\w+|applypriority\S*)"
)
def _nothing(_: PtxInstruction) -> str:
    # Threads of a block are fibers, one at a time: only the host compiler could reorder.
    return '__asm__ volatile("" ::: "memory");'


@INSTRUCTIONS(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32")
def _registers(i: PtxInstruction) -> str:
    return f"emu::set_max_registers({i.u32(0)}, {_flag(i.has('inc'))});"


@INSTRUCTIONS(r"elect\.sync")
def _elect(i: PtxInstruction) -> str:
    # PTX ISA leaves open which lane it is; here it is the lowest of the mask.
    lane, _, predicate = (x.strip() for x in i.operands[0].partition("|"))
    leader = i.set_to(lane, "(uint32_t)__builtin_ctz(m_)") if lane != "_" else ""
    return f"uint32_t m_ = {i.u32(1)}; {leader} {i.set_to(predicate, 'emu::elect(m_)')}"


@INSTRUCTIONS(r"nanosleep\.u32")
def _sleep(_: PtxInstruction) -> str:
    return "emu::sleep();"


@INSTRUCTIONS(r"trap|brkpt")
def _trap(_: PtxInstruction) -> str:
    return "emu::trap();"


@INSTRUCTIONS(r"vote\.sync\.ballot\.b32")
def _ballot(i: PtxInstruction) -> str:
    return i.set(0, f"emu::ballot({i.u32(2)}, {i.value(1, 'bool')})")


@INSTRUCTIONS(r"vote\.sync\.(all|any|uni)\.pred")
def _vote(i: PtxInstruction) -> str:
    mask, value = i.u32(2), i.value(1, "bool")
    if i.has("any"):
        return i.set(0, f"emu::ballot({mask}, {value}) != 0")
    if i.has("all"):
        return i.set(0, f"emu::ballot({mask}, !({value})) == 0")
    return f"uint32_t v_ = emu::ballot({mask}, {value}); {i.set(0, f'v_ == 0 || v_ == {mask}')}"


@INSTRUCTIONS(r"shfl\.sync\.(idx|up|down|bfly)\.b32")
def _shuffle(i: PtxInstruction) -> str:
    """PTX ISA, "shfl.sync": bits 0-4 of c clamp, bits 8-12 split the warp into segments."""
    value, _, predicate = (x.strip() for x in i.operands[0].partition("|"))
    mode = i.opcode.split(".")[2]
    call = f"emu::shuffle_source(emu::Shuffle::{mode}, {i.u32(2)}, {i.u32(3)}, &in_)"
    lines = [
        "bool in_;",
        f"int from_ = {call};",
        f"uint32_t got_ = (uint32_t)emu::shuffle({i.u32(4)}, {i.u32(1)}, from_);",
        i.set_to(value, "got_"),
        i.set_to(predicate, "in_") if predicate else "",
    ]
    return " ".join(lines)


@INSTRUCTIONS(r"match\.(any|all)\.sync\.b(32|64)")
def _match(i: PtxInstruction) -> str:
    mask, _, predicate = (x.strip() for x in i.operands[0].partition("|"))
    lines = [f"uint32_t m_ = emu::match({i.u32(2)}, {i.value(1, 'uint64_t')});"]
    if i.has("all"):
        lines += [f"bool p_ = m_ == {i.u32(2)};", "m_ = p_ ? m_ : 0;"]
    lines.append(i.set_to(mask, "m_"))
    lines.append(i.set_to(predicate, "p_") if predicate else "")
    return " ".join(lines)


_REDUX = {"add": "a + b", "min": "a < b ? a : b", "max": "a > b ? a : b", "and": "a & b",
          "or": "a | b", "xor": "a ^ b"}  # fmt: skip


@INSTRUCTIONS(r"redux\.sync\.(add|min|max|and|or|xor)\.[bus]32")
def _reduce(i: PtxInstruction) -> str:
    name, kind = i.opcode.split(".")[2:]
    type_ = "int32_t" if kind == "s32" and name != "add" else "uint32_t"
    f = (
        f"[](uint64_t x, uint64_t y) {{ {type_} a = ({type_})x, b = ({type_})y; "
        f"return (uint64_t)({_REDUX[name]}); }}"
    )
    return i.set(0, f"(uint32_t)emu::reduce({i.u32(2)}, {i.u32(1)}, {f})")


@INSTRUCTIONS(r"activemask\.b32")
def _active(i: PtxInstruction) -> str:
    return i.set(0, "emu::active_mask()")
