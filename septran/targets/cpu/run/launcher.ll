; What a kernel calls for a parallel loop, in place of TVM's own TVMBackendParallelLaunch.
;
; Where an OpenMP runtime is in the process (torch brings one) its threads run the loop; else
; TVM's pool does. launcher.py puts the data layout of this host before this text, its own numbers
; for what begins with a dollar, has LLVM compile it, and fills @slots.

; The functions of others, in the order of launcher.py's SLOTS.
@slots = global [9 x ptr] zeroinitializer
; As many threads as a kernel takes at most; 0: no limit.
@limit = global i32 0

@kind = private constant [13 x i8] c"RuntimeError\00"
@message = private constant [52 x i8] c"a thread of a kernel failed, perhaps without memory\00"

; How many of the threads are left out, and until when (of the monotonic clock, in nanoseconds):
; see @weigh.
@left_out = global i32 0
@until = internal global i64 0
; Until when no thread is moved to another core: see @part_from.
@settled = internal global i64 0

; What TVM calls FTVMParallelLambda: i32 (i32 number, ptr environment, ptr data). The environment
; is TVMParallelGroupEnv: { ptr sync_handle, i32 num_task }.
%environment = type { ptr, i32 }
; What the threads of one launch share: the loop's body, its data, the pieces of the loop, a byte
; for each piece that says whether it was taken, whether a thread failed, the nanoseconds that
; the first one worked, and a bit for each core that one of them runs on.
%launch = type { ptr, ptr, i32, ptr, i32, i64, [16 x i64] }

define i32 @septran_launch(ptr %body, ptr %data, i32 %wanted) {
  %gomp_parallel.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 1
  %gomp_parallel = load atomic ptr, ptr %gomp_parallel.at acquire, align 8
  %no_openmp = icmp eq ptr %gomp_parallel, null
  br i1 %no_openmp, label %pool, label %openmp

pool:
  %tvm_launch = load ptr, ptr @slots
  %pooled = alloca %launch
  store ptr %body, ptr %pooled
  %pooled.data.at = getelementptr %launch, ptr %pooled, i64 0, i32 1
  store ptr %data, ptr %pooled.data.at
  call void @begin_here(ptr %pooled)
  %result.pool = call i32 %tvm_launch(ptr @pooled_work, ptr %pooled, i32 %wanted)
  ret i32 %result.pool

openmp:
  %count.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 2
  %count.function = load ptr, ptr %count.at
  %all = call i32 %count.function()
  %any = icmp eq i32 %wanted, 0
  %asked = select i1 %any, i32 %all, i32 %wanted
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %no_limit = icmp eq i32 %limit, 0
  %less = icmp slt i32 %asked, %limit
  %within = or i1 %no_limit, %less
  %some = select i1 %within, i32 %asked, i32 %limit
  %no_choice = icmp sle i32 %some, 1
  br i1 %no_choice, label %alone, label %choose

choose:
  %cores = call i32 @cores()
  %most = call i32 @llvm.smin.i32(i32 %some, i32 %cores)
  %begun = call i64 @now()
  %left_out = call i32 @still_left_out(i64 %begun)
  %count = sub i32 %most, %left_out
  %one = icmp sle i32 %count, 1
  br i1 %one, label %alone, label %together

alone:
  %environment = alloca %environment
  store %environment { ptr null, i32 1 }, ptr %environment
  %result.alone = call i32 %body(i32 0, ptr %environment, ptr %data)
  ret i32 %result.alone

together:
  %pieces = mul i32 %count, $pieces
  %taken = alloca i8, i32 %pieces
  call void @llvm.memset.p0.i32(ptr %taken, i8 0, i32 %pieces, i1 false)
  %launch = alloca %launch
  store ptr %body, ptr %launch
  %data.at = getelementptr %launch, ptr %launch, i64 0, i32 1
  store ptr %data, ptr %data.at
  %pieces.at = getelementptr %launch, ptr %launch, i64 0, i32 2
  store i32 %pieces, ptr %pieces.at
  %taken.at = getelementptr %launch, ptr %launch, i64 0, i32 3
  store ptr %taken, ptr %taken.at
  %failed.at = getelementptr %launch, ptr %launch, i64 0, i32 4
  store i32 0, ptr %failed.at
  call void @begin_here(ptr %launch)
  call void %gomp_parallel(ptr @work, ptr %launch, i32 %count, i32 0)
  call void @weigh(ptr %launch, i64 %begun, i32 %left_out)
  %failed = load atomic i32, ptr %failed.at acquire, align 4
  %right = icmp eq i32 %failed, 0
  br i1 %right, label %done, label %error

done:
  ret i32 0

error:
  ; The thread's own message is where only that thread finds it.
  %raise.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 4
  %raise = load ptr, ptr %raise.at
  call void %raise(ptr @kind, ptr @message)
  ret i32 -1
}

; How many cores the calling thread may use: its affinity may have changed since torch started its
; threads. Where that is not known, as many as one likes.
define internal i32 @cores() {
  %mask = alloca <16 x i64>
  %affinity.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 6
  %affinity = load ptr, ptr %affinity.at
  %nothing = icmp eq ptr %affinity, null
  br i1 %nothing, label %unknown, label %ask

ask:
  %result = call i32 %affinity(i32 0, i64 128, ptr %mask)
  %told = icmp eq i32 %result, 0
  br i1 %told, label %count, label %unknown

count:
  %bits = load <16 x i64>, ptr %mask
  %each = call <16 x i64> @llvm.ctpop.v16i64(<16 x i64> %bits)
  %all = call i64 @llvm.vector.reduce.add.v16i64(<16 x i64> %each)
  %number = trunc i64 %all to i32
  ret i32 %number

unknown:
  ret i32 2147483647
}

; Nanoseconds of the monotonic clock.
define internal i64 @now() {
  %time = alloca { i64, i64 }
  %clock.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 5
  %clock = load ptr, ptr %clock.at
  %result = call i32 %clock(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds.at = getelementptr i8, ptr %time, i64 8
  %nanoseconds = load i64, ptr %nanoseconds.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %nanoseconds
  ret i64 %all
}

; How many threads to leave out at this time.
define internal i32 @still_left_out(i64 %time) {
  %more = load atomic i32, ptr @left_out monotonic, align 4
  %none = icmp eq i32 %more, 0
  br i1 %none, label %done, label %look

look:
  %until = load atomic i64, ptr @until monotonic, align 8
  %over = icmp sge i64 %time, %until
  br i1 %over, label %forget, label %done

forget:
  store atomic i32 0, ptr @left_out monotonic, align 4
  br label %done

done:
  %result = phi i32 [ 0, %0 ], [ %more, %look ], [ 0, %forget ]
  ret i32 %result
}

; The core that this thread runs on; -1 where that is not known, or is not among the first 1024.
define internal i32 @core() {
  %core.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 7
  %function = load ptr, ptr %core.at
  %nothing = icmp eq ptr %function, null
  br i1 %nothing, label %unknown, label %ask

ask:
  %core = call i32 %function()
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %done, label %unknown

done:
  ret i32 %core

unknown:
  ret i32 -1
}

; Notes that this thread runs on its core; whether another one of the launch had noted the same.
define internal i1 @runs_here(ptr %launch) {
  %core = call i32 @core()
  %unknown = icmp slt i32 %core, 0
  br i1 %unknown, label %free, label %note

note:
  %word = lshr i32 %core, 6
  %place = and i32 %core, 63
  %place.long = zext i32 %place to i64
  %bit = shl i64 1, %place.long
  %word.at = getelementptr %launch, ptr %launch, i64 0, i32 6, i32 %word
  %before = atomicrmw or ptr %word.at, i64 %bit monotonic
  %same = and i64 %before, %bit
  %shared = icmp ne i64 %same, 0
  ret i1 %shared

free:
  ret i1 false
}

; The first thread of a launch is on its core, no other one anywhere.
define internal void @begin_here(ptr %launch) {
  %taken = getelementptr %launch, ptr %launch, i64 0, i32 6
  call void @llvm.memset.p0.i32(ptr %taken, i8 0, i32 128, i1 false)
  %shared = call i1 @runs_here(ptr %launch)
  ret void
}

; Moves a thread that is on the core of another one of its launch. A scheduler wakes threads where
; they are woken from, and one that sleeps between launches it may leave there for ever: two
; threads then take as long as one. It is asked to run the thread elsewhere, and then where it
; likes, at most once in some milliseconds, as another process may have the other core.
define internal void @part_from(ptr %launch) {
  %allowed = alloca <16 x i64>
  %wanted = alloca <16 x i64>
  %shared = call i1 @runs_here(ptr %launch)
  br i1 %shared, label %think, label %done

think:
  %time = call i64 @now()
  %until = load atomic i64, ptr @settled monotonic, align 8
  %early = icmp slt i64 %time, %until
  br i1 %early, label %done, label %look

look:
  %later = add i64 %time, $settling
  store atomic i64 %later, ptr @settled monotonic, align 8
  %get.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 6
  %get = load ptr, ptr %get.at
  %set.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 8
  %set = load ptr, ptr %set.at
  %no_get = icmp eq ptr %get, null
  %no_set = icmp eq ptr %set, null
  %nothing = or i1 %no_get, %no_set
  br i1 %nothing, label %done, label %ask

ask:
  store <16 x i64> zeroinitializer, ptr %allowed
  %result = call i32 %get(i32 0, i64 128, ptr %allowed)
  %told = icmp eq i32 %result, 0
  br i1 %told, label %choose, label %done

choose:
  %all = load <16 x i64>, ptr %allowed
  %taken.at = getelementptr %launch, ptr %launch, i64 0, i32 6
  %taken = load <16 x i64>, ptr %taken.at, align 8
  %not_taken = xor <16 x i64> %taken, splat (i64 -1)
  %rest = and <16 x i64> %all, %not_taken
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %rest)
  %none = icmp eq i64 %any, 0
  br i1 %none, label %done, label %move

move:
  store <16 x i64> %rest, ptr %wanted
  %moved = call i32 %set(i32 0, i64 128, ptr %wanted)
  %back = call i32 %set(i32 0, i64 128, ptr %allowed)
  %noted = call i1 @runs_here(ptr %launch)
  br label %done

done:
  ret void
}

; What TVM's pool runs: the loop's body, on a core of its own.
define internal i32 @pooled_work(i32 %number, ptr %environment, ptr %launch) {
  %first = icmp eq i32 %number, 0
  br i1 %first, label %run, label %elsewhere

elsewhere:
  call void @part_from(ptr %launch)
  br label %run

run:
  %body = load ptr, ptr %launch
  %data.at = getelementptr %launch, ptr %launch, i64 0, i32 1
  %data = load ptr, ptr %data.at
  %result = call i32 %body(i32 %number, ptr %environment, ptr %data)
  ret i32 %result
}

; What a launch lost: all of its time in which its first thread had no work. A busy process
; beside this one, or another thread's kernel, has a core of its own then, and threads that wait
; for one another on the remaining ones lose more than they gain. Where the loss is a millisecond
; and more than the work, one thread less is taken for a time in which it would be a small part.
define internal void @weigh(ptr %launch, i64 %begun, i32 %left_out) {
  %ended = call i64 @now()
  %time = sub i64 %ended, %begun
  %worked.at = getelementptr %launch, ptr %launch, i64 0, i32 5
  %worked = load i64, ptr %worked.at
  %lost = sub i64 %time, %worked
  %short = icmp slt i64 %lost, $loss
  %less = icmp slt i64 %lost, %worked
  %little = or i1 %short, %less
  br i1 %little, label %done, label %crowded

crowded:
  %away = mul i64 %lost, $patience
  %until = add i64 %ended, %away
  store atomic i64 %until, ptr @until monotonic, align 8
  %more = add i32 %left_out, 1
  store atomic i32 %more, ptr @left_out monotonic, align 4
  br label %done

done:
  ret void
}

; One thread's share: its own pieces in their order, so that it finds in its cache what it left
; there in the last call, then the last ones of others that are late (another process may have
; their core).
define internal void @work(ptr %launch) {
  %number.at = getelementptr [9 x ptr], ptr @slots, i64 0, i64 3
  %number.function = load ptr, ptr %number.at
  %number = call i32 %number.function()
  %pieces.at = getelementptr %launch, ptr %launch, i64 0, i32 2
  %pieces = load i32, ptr %pieces.at
  %first.far = mul i32 %number, $pieces
  %begun = call i64 @now()
  %starter = icmp eq i32 %number, 0
  br i1 %starter, label %own, label %elsewhere

elsewhere:
  call void @part_from(ptr %launch)
  br label %own

own:
  %step = phi i32 [ 0, %0 ], [ 0, %elsewhere ], [ %step.next, %own ]
  %piece = add i32 %first.far, %step
  call void @carry_out(ptr %launch, i32 %piece)
  %step.next = add i32 %step, 1
  %more = icmp slt i32 %step.next, $pieces
  br i1 %more, label %own, label %others

; From the last piece of the thread before this one downwards, around to this one's own.
others:
  %left = phi i32 [ 1, %own ], [ %left.next, %others ]
  %far = sub i32 %first.far, %left
  %negative = icmp slt i32 %far, 0
  %around = add i32 %far, %pieces
  %other = select i1 %negative, i32 %around, i32 %far
  call void @carry_out(ptr %launch, i32 %other)
  %left.next = add i32 %left, 1
  %some = icmp slt i32 %left.next, %pieces
  br i1 %some, label %others, label %finish

finish:
  %first = icmp eq i32 %number, 0
  br i1 %first, label %note, label %done

note:
  %ended = call i64 @now()
  %worked = sub i64 %ended, %begun
  %worked.at = getelementptr %launch, ptr %launch, i64 0, i32 5
  store i64 %worked, ptr %worked.at
  br label %done

done:
  ret void
}

; Runs one piece, unless a thread has taken it.
define internal void @carry_out(ptr %launch, i32 %piece) {
  %environment = alloca %environment
  %taken.at = getelementptr %launch, ptr %launch, i64 0, i32 3
  %taken = load ptr, ptr %taken.at
  %mine.at = getelementptr i8, ptr %taken, i32 %piece
  %seen = load atomic i8, ptr %mine.at monotonic, align 1
  %free = icmp eq i8 %seen, 0
  br i1 %free, label %take, label %done

take:
  %before = atomicrmw xchg ptr %mine.at, i8 1 monotonic
  %mine = icmp eq i8 %before, 0
  br i1 %mine, label %run, label %done

run:
  %pieces.at = getelementptr %launch, ptr %launch, i64 0, i32 2
  %pieces = load i32, ptr %pieces.at
  store ptr null, ptr %environment
  %tasks.at = getelementptr %environment, ptr %environment, i64 0, i32 1
  store i32 %pieces, ptr %tasks.at
  %body = load ptr, ptr %launch
  %data.at = getelementptr %launch, ptr %launch, i64 0, i32 1
  %data = load ptr, ptr %data.at
  %result = call i32 %body(i32 %piece, ptr %environment, ptr %data)
  %right = icmp eq i32 %result, 0
  br i1 %right, label %done, label %failed

failed:
  %failed.at = getelementptr %launch, ptr %launch, i64 0, i32 4
  store atomic i32 1, ptr %failed.at release, align 4
  br label %done

done:
  ret void
}

declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memset.p0.i32(ptr, i8, i32, i1)
declare <16 x i64> @llvm.ctpop.v16i64(<16 x i64>)
declare i64 @llvm.vector.reduce.add.v16i64(<16 x i64>)
declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)

; The addresses of the above for launcher.py, as TVMFFISafeCallType functions: a TVMFFIAny is
; { i32 type_index, i32 padding, i64 value }, and type_index 1 is an integer.
define i32 @__tvm_ffi_launch(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @septran_launch)
  ret i32 0
}

define i32 @__tvm_ffi_slots(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @slots)
  ret i32 0
}

define i32 @__tvm_ffi_left_out(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @left_out)
  ret i32 0
}

define i32 @__tvm_ffi_limit(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @limit)
  ret i32 0
}

define internal void @answer(ptr %result, ptr %address) {
  store i64 1, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store ptr %address, ptr %value
  ret void
}
