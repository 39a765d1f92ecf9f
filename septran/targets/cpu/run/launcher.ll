; What a kernel calls for a parallel loop, in place of TVM's own TVMBackendParallelLaunch.
;
; Where an OpenMP runtime is in the process (torch brings one) its threads run the loop; else
; TVM's pool does. launcher.py puts the data layout of this host before this text, has LLVM
; compile it, and fills @slots.

; The functions of others, in the order of launcher.py's SLOTS.
@slots = global [8 x ptr] zeroinitializer
; As many threads as a kernel takes at most; 0: no limit.
@limit = global i32 0

@kind = private constant [13 x i8] c"RuntimeError\00"
@message = private constant [52 x i8] c"a thread of a kernel failed, perhaps without memory\00"

; What TVM calls FTVMParallelLambda: i32 (i32 number, ptr environment, ptr data). The environment
; is TVMParallelGroupEnv: { ptr sync_handle, i32 num_task }.
%environment = type { ptr, i32 }
; What the threads of one launch share: the loop's body, its data, whether a thread failed.
%launch = type { ptr, ptr, i32 }

define i32 @septran_launch(ptr %body, ptr %data, i32 %wanted) {
  %gomp_parallel.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 2
  %gomp_parallel = load atomic ptr, ptr %gomp_parallel.at acquire, align 8
  %no_openmp = icmp eq ptr %gomp_parallel, null
  br i1 %no_openmp, label %pool, label %openmp

pool:
  %tvm_launch = load ptr, ptr @slots
  %result.pool = tail call i32 %tvm_launch(ptr %body, ptr %data, i32 %wanted)
  ret i32 %result.pool

openmp:
  %count.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 3
  %count.function = load ptr, ptr %count.at
  %all = call i32 %count.function()
  %any = icmp eq i32 %wanted, 0
  %asked = select i1 %any, i32 %all, i32 %wanted
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %no_limit = icmp eq i32 %limit, 0
  %less = icmp slt i32 %asked, %limit
  %within = or i1 %no_limit, %less
  %count = select i1 %within, i32 %asked, i32 %limit
  %one = icmp sle i32 %count, 1
  br i1 %one, label %alone, label %together

alone:
  %environment = alloca %environment
  store %environment { ptr null, i32 1 }, ptr %environment
  %result.alone = call i32 %body(i32 0, ptr %environment, ptr %data)
  ret i32 %result.alone

together:
  %launch = alloca %launch
  store ptr %body, ptr %launch
  %data.at = getelementptr %launch, ptr %launch, i64 0, i32 1
  store ptr %data, ptr %data.at
  %failed.at = getelementptr %launch, ptr %launch, i64 0, i32 2
  store i32 0, ptr %failed.at
  call void %gomp_parallel(ptr @work, ptr %launch, i32 %count, i32 0)
  %failed = load atomic i32, ptr %failed.at acquire, align 4
  %right = icmp eq i32 %failed, 0
  br i1 %right, label %done, label %error

done:
  ret i32 0

error:
  ; The thread's own message is where only that thread finds it.
  %raise.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 7
  %raise = load ptr, ptr %raise.at
  call void %raise(ptr @kind, ptr @message)
  ret i32 -1
}

; One thread's share.
define internal void @work(ptr %launch) {
  %number.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 4
  %number.function = load ptr, ptr %number.at
  %number = call i32 %number.function()
  %count.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 5
  %count.function = load ptr, ptr %count.at
  %count = call i32 %count.function()
  %environment = alloca %environment
  store ptr null, ptr %environment
  %tasks.at = getelementptr %environment, ptr %environment, i64 0, i32 1
  store i32 %count, ptr %tasks.at
  %body = load ptr, ptr %launch
  %data.at = getelementptr %launch, ptr %launch, i64 0, i32 1
  %data = load ptr, ptr %data.at
  %result = call i32 %body(i32 %number, ptr %environment, ptr %data)
  %right = icmp eq i32 %result, 0
  br i1 %right, label %done, label %failed

failed:
  %failed.at = getelementptr %launch, ptr %launch, i64 0, i32 2
  store atomic i32 1, ptr %failed.at release, align 4
  br label %done

done:
  ret void
}

; In place of TVMBackendParallelBarrier: what OpenMP's threads run has no handle of TVM's.
define i32 @septran_barrier(i32 %number, ptr %environment) {
  %handle = load ptr, ptr %environment
  %ours = icmp eq ptr %handle, null
  br i1 %ours, label %openmp, label %pool

openmp:
  %tasks.at = getelementptr %environment, ptr %environment, i64 0, i32 1
  %tasks = load i32, ptr %tasks.at
  %one = icmp eq i32 %tasks, 1
  br i1 %one, label %done, label %wait

wait:
  %gomp_barrier.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 6
  %gomp_barrier = load ptr, ptr %gomp_barrier.at
  call void %gomp_barrier()
  br label %done

done:
  ret i32 0

pool:
  %tvm_barrier.at = getelementptr [8 x ptr], ptr @slots, i64 0, i64 1
  %tvm_barrier = load ptr, ptr %tvm_barrier.at
  %result = tail call i32 %tvm_barrier(i32 %number, ptr %environment)
  ret i32 %result
}

; The addresses of the above for launcher.py, as TVMFFISafeCallType functions: a TVMFFIAny is
; { i32 type_index, i32 padding, i64 value }, and type_index 1 is an integer.
define i32 @__tvm_ffi_launch(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @septran_launch)
  ret i32 0
}

define i32 @__tvm_ffi_barrier(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @septran_barrier)
  ret i32 0
}

define i32 @__tvm_ffi_slots(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  call void @answer(ptr %result, ptr @slots)
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
