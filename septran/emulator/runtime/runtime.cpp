// The emulator's runtime: compiled once a machine, linked into every kernel's library.
#include "launch.h"

namespace emu {
thread_local Machine* machine;
thread_local Thread* current;
}  // namespace emu

extern "C" {
emu::Result* emu_launch(const emu::Request* r) { return emu::launch(*r); }
void emu_free(emu::Result* r) { delete r; }
int32_t emu_fault(const emu::Result* r) { return int32_t(r->error.fault); }
const char* emu_message(const emu::Result* r) { return r->error.message.c_str(); }
// The block and thread of an error, or -1.
int64_t emu_block(const emu::Result* r) { return r->error.has_thread ? r->error.block : -1; }
int64_t emu_thread(const emu::Result* r) { return r->error.has_thread ? r->error.thread : -1; }
uint64_t emu_sites(const emu::Result* r) { return r->error.sites.size(); }
uint64_t emu_site(const emu::Result* r, uint64_t i) { return uint64_t(r->error.sites[i]); }
const emu::Counts* emu_counts(const emu::Result* r) { return &r->counts; }
uint64_t emu_records(const emu::Result* r) { return r->trace.size(); }
const emu::Record* emu_record(const emu::Result* r) { return r->trace.data(); }
uint64_t emu_conflicts(const emu::Result* r) { return r->conflicts.size(); }
const emu::Conflict* emu_conflict(const emu::Result* r) { return r->conflicts.data(); }
}
