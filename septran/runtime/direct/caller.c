/* A call of a compiled kernel, without Python: its arguments are looked at, a kernel is chosen by
 * their types and shapes, its outputs are made, and it runs.
 *
 * Whatever is not as the plans of earlier calls expect goes to the long way (`other`), which reports
 * or mends it: other kinds of tensors, a gradient, a lazy negation, other shapes, inputs by name. Layout,
 * alignment, device and shared memory are checked by the kernel itself before it starts; what it
 * refuses goes the same way.
 *
 * Python's headers are seldom installed. What is declared here is its stable ABI, and the head of an
 * object in an interpreter with a lock; of NumPy it is the head of its arrays, which is the same in
 * versions 1 and 2. `direct/library.py` finds the addresses in `known`, and checks what it can.
 */
#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#define TENSORS 32
#define RANK 8
#define SCALARS 8
#define DYNAMIC 4

typedef struct Object {
  intptr_t references;
  void *type;
} Object;

typedef Object *(*Function)(Object *, Object *const *, intptr_t, Object *);
typedef struct {
  const char *name;
  Function function;
  int flags;
  const char *text;
} Method;

extern Object _Py_NoneStruct;
extern Object PyTuple_Type, PyFloat_Type, PyLong_Type, *PyExc_ReferenceError;
void Py_IncRef(Object *), Py_DecRef(Object *);
Object *PyCFunction_NewEx(Method *, Object *, Object *);
Object *PyCapsule_New(void *, const char *, void (*)(Object *));
void *PyCapsule_GetPointer(Object *, const char *), *PyCapsule_GetContext(Object *);
int PyCapsule_SetContext(Object *, void *);
Object *PyDict_New(void);
int PyDict_SetItem(Object *, Object *, Object *);
Object *PyErr_Occurred(void);
void PyErr_Clear(void), PyErr_SetString(Object *, const char *);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
Object *PyObject_Call(Object *, Object *, Object *), *PyObject_CallObject(Object *, Object *);
Object *PyTuple_New(intptr_t), *PyTuple_GetItem(Object *, intptr_t);
int PyTuple_SetItem(Object *, intptr_t, Object *);
intptr_t PyTuple_Size(Object *);
int PyUnicode_CompareWithASCIIString(Object *, const char *);
double PyFloat_AsDouble(Object *);
long long PyLong_AsLongLong(Object *);

/* ------------------------------------------------------------------------------ what is known */

typedef struct {
  Object head;
  Object *scalar;
  char kind, type, order, flags;
  int number;
} ArrayType;

typedef struct {
  Object head;
  char *data;
  int rank;
  intptr_t *extents, *strides;
  Object *base;
  ArrayType *type;
  int flags;
} Array;

enum { COMPACT = 0x1, ALIGNED = 0x100, WRITABLE = 0x400, KEYWORDS = 0x82 };

/* Addresses that Python finds; those of a library that is not loaded are null. */
typedef struct {
  int (*run)(TVMFFIObjectHandle, TVMFFIAny *, int32_t, TVMFFIAny *);
  void (*error)(TVMFFIObjectHandle *);
  int (*release)(TVMFFIObjectHandle);
  void *array; /* numpy.ndarray */
  Object *(*new_array)(void *, ArrayType *, int, const int64_t *, void *, void *, int, Object *);
  void *tensor; /* torch.Tensor */
  DLPackDLTensorFromPyObjectNoSync exchange;
  uint8_t (*requires_grad)(void *);
  uint8_t (*is_negated)(void *);
  int (*new_tensor)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **);
  int (*delete_tensor)(void *);
  Object *(*wrap)(void *);
  uint8_t (*is_inference)(void *);
  void (*bump_version)(void *);
} Addresses;

static Addresses known;

void septran_prepare(const Addresses *found) { known = *found; }

/* ------------------------------------------------------------------- plans: as library.py has them */

typedef struct {
  int32_t kind; /* the library's number of the element type */
  int32_t rank;
  int64_t extents[RANK]; /* -1 - n is the n-th dynamic one */
  DLDataType element;
  int32_t place;    /* among the kernel's arguments */
  Object *allocate; /* makes an output; null where `fresh` does */
  Object *type;     /* of a new array of NumPy */
  int32_t torch;    /* the number of a new tensor's type in torch */
} Tensor;

/* A number that calls pass by name. */
typedef struct {
  const char *name;
  int32_t type; /* kTVMFFIInt or kTVMFFIFloat */
  int64_t least, most;
} Scalar;

/* An input of one element that a call may pass as a number. */
typedef struct {
  int32_t may, numpy; /* whether it may; NumPy's number of its type */
  DLDataType element;
  int64_t least, most;
} Integer;

typedef struct {
  Object *owner; /* keeps all of this while a call uses it */
  TVMFFIObjectHandle function;
  uint8_t *recent;
  int32_t numpy, scalars;
  int32_t open; /* another plan for the same inputs has other outputs, which a call must tell */
  int64_t least[DYNAMIC], most[DYNAMIC];
  Tensor tensors[TENSORS]; /* outputs, then inputs */
  TVMFFIAny values[SCALARS]; /* where a call says none; without a type where it must say one */
  Scalar given[SCALARS];
} Plan;

typedef struct {
  Object *kernel; /* a weak reference */
  Object *other;  /* the long way: a function of the kernel and the call's arguments */
  int32_t inputs, outputs, count;
  Plan **plans; /* the one that was called last is the first */
  Integer integers[TENSORS]; /* of the inputs */
} Caller;

/* What a call passes: outputs, then inputs. */
typedef struct {
  DLTensor tensors[TENSORS];
  int64_t strides[TENSORS][RANK];
  int32_t kinds[TENSORS];
  int64_t sizes[DYNAMIC];
  _Alignas(64) int64_t numbers[TENSORS][8]; /* those passed as numbers, aligned as tensors are */
} Passed;

typedef struct {
  Object *names; /* a tuple, or null */
  Object *const *values;
} Keywords;

/* -------------------------------------------------------------------------------- the arguments */

static int compact(Passed *passed, int n) {
  DLTensor *t = &passed->tensors[n];
  int64_t step = 1;
  for (int axis = t->ndim - 1; axis >= 0; axis--) {
    passed->strides[n][axis] = step;
    step *= t->shape[axis];
  }
  t->strides = passed->strides[n];
  return 1;
}

static int of_numpy(Object *x, Passed *passed, int n, int written) {
  Array *array = (Array *)x;
  int needed = COMPACT | ALIGNED | (written ? WRITABLE : 0);
  char order = array->type->order;
  if ((array->flags & needed) != needed || (order != '=' && order != '|') || array->rank > RANK)
    return 0;
  DLTensor *t = &passed->tensors[n];
  *t = (DLTensor){array->data, {kDLCPU, 0}, array->rank, {0}, (int64_t *)array->extents, NULL, 0};
  passed->kinds[n] = array->type->number;
  return compact(passed, n);
}

static int of_torch(Object *x, Passed *passed, int n) {
  DLTensor *t = &passed->tensors[n];
  if (known.exchange(x, t)) { /* it has no memory of its own */
    PyErr_Clear();
    return 0;
  }
  void **tensor = (void **)(x + 1); /* at::Tensor: a pointer to what it is of */
  if (known.requires_grad(*tensor) || known.is_negated(tensor)) return 0;
  passed->kinds[n] = t->dtype.code | t->dtype.bits << 8 | t->dtype.lanes << 16;
  return t->data != NULL && t->ndim <= RANK && t->device.device_type == kDLCPU;
}

static int described(Object *x, int numpy, Passed *passed, int n, int written) {
  if (numpy) return x->type == known.array && of_numpy(x, passed, n, written);
  return x->type == known.tensor && of_torch(x, passed, n);
}

/* Read a number of Python; 0 where it is none of the range. */
static int whole(Object *x, int64_t least, int64_t most, int64_t *value) {
  if (x->type != &PyLong_Type) return 0;
  *value = PyLong_AsLongLong(x);
  if (*value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return 0;
  }
  return least <= *value && *value <= most;
}

/* A tensor of one element from a number. */
static int of_number(Object *x, const Integer *wanted, int numpy, Passed *passed, int n) {
  static int64_t one[] = {1};
  int64_t value, *place = passed->numbers[n];
  if (!wanted->may || !whole(x, wanted->least, wanted->most, &value)) return 0;
  if (wanted->element.bits == 64) *place = value;
  else *(int32_t *)place = (int32_t)value;
  DLTensor *t = &passed->tensors[n];
  *t = (DLTensor){place, {kDLCPU, 0}, 1, wanted->element, one, NULL, 0};
  DLDataType e = wanted->element;
  passed->kinds[n] = numpy ? wanted->numpy : e.code | e.bits << 8 | e.lanes << 16;
  return compact(passed, n);
}

static int of_inputs(const Caller *caller, Object *const *inputs, int numpy, Passed *passed) {
  for (int n = 0; n < caller->inputs; n++) {
    int place = caller->outputs + n;
    if (inputs[n]->type == &PyLong_Type) {
      if (!of_number(inputs[n], &caller->integers[n], numpy, passed, place)) return 0;
    } else if (!described(inputs[n], numpy, passed, place, 0)) {
      return 0;
    }
  }
  return 1;
}

static int of_scalar(const Scalar *wanted, Object *x, TVMFFIAny *value) {
  value->type_index = wanted->type;
  if (wanted->type == kTVMFFIInt) return whole(x, wanted->least, wanted->most, &value->v_int64);
  if (x->type != &PyFloat_Type) return 0;
  value->v_float64 = PyFloat_AsDouble(x);
  return 1;
}

/* The scalars of a call; 0 where one is missing, or is not as its type is. */
static int of_keywords(const Plan *plan, Keywords given, TVMFFIAny *values) {
  for (int n = 0; n < plan->scalars; n++) values[n] = plan->values[n];
  intptr_t count = given.names ? PyTuple_Size(given.names) : 0;
  for (intptr_t k = 0; k < count; k++) {
    Object *name = PyTuple_GetItem(given.names, k);
    if (!PyUnicode_CompareWithASCIIString(name, "out")) continue;
    int n = 0;
    while (n < plan->scalars && PyUnicode_CompareWithASCIIString(name, plan->given[n].name)) n++;
    if (n == plan->scalars || !of_scalar(&plan->given[n], given.values[k], &values[n])) return 0;
  }
  for (int n = 0; n < plan->scalars; n++)
    if (values[n].type_index == kTVMFFINone) return 0;
  return 1;
}

/* --------------------------------------------------------------------------------- the choice */

static int fits(const Tensor *expected, const DLTensor *t, const Plan *plan, int64_t *sizes) {
  if (expected->rank != t->ndim) return 0;
  for (int axis = 0; axis < t->ndim; axis++) {
    int64_t wanted = expected->extents[axis], found = t->shape[axis];
    if (wanted < 0) {
      int which = (int)(-1 - wanted);
      if (sizes[which] < 0) {
        if (found < plan->least[which] || found > plan->most[which]) return 0;
        sizes[which] = found;
      }
      wanted = sizes[which];
    }
    if (wanted != found) return 0;
  }
  return 1;
}

/* Whether a plan is for what is passed, from tensor `first` on: 0, or the first input without outputs. */
static int accepts(const Plan *plan, Passed *passed, int numpy, int first, int last) {
  if (plan->numpy != numpy || (first && plan->open)) return 0;
  for (int n = first; n < last; n++)
    if (plan->tensors[n].kind != passed->kinds[n]) return 0;
  for (int n = 0; n < DYNAMIC; n++) passed->sizes[n] = -1;
  for (int n = last - 1; n >= first; n--)
    if (!fits(&plan->tensors[n], &passed->tensors[n], plan, passed->sizes)) return 0;
  return 1;
}

static Plan *chosen(Caller *caller, Passed *passed, int numpy, int first) {
  int last = caller->outputs + caller->inputs;
  for (int n = 0; n < caller->count; n++) {
    Plan *plan = caller->plans[n];
    if (!accepts(plan, passed, numpy, first, last)) continue;
    caller->plans[n] = caller->plans[0];
    caller->plans[0] = plan;
    return plan;
  }
  return NULL;
}

/* ------------------------------------------------------------------------------------- outputs */

static Object *fresh_tensor(const Tensor *t, const int64_t *extents, const int64_t *strides) {
  void *handle = NULL;
  /* torch counts devices from the processor, 0 */
  if (known.new_tensor(t->rank, extents, strides, t->torch, 0, 0, &handle)) return NULL;
  Object *made = known.wrap(handle);
  known.delete_tensor(handle);
  return made;
}

static Object *fresh(const Plan *plan, Passed *passed, int n) {
  const Tensor *t = &plan->tensors[n];
  if (t->allocate) return PyObject_CallObject(t->allocate, NULL);
  int64_t extents[RANK];
  for (int axis = 0; axis < t->rank; axis++) {
    int64_t extent = t->extents[axis];
    extents[axis] = extent < 0 ? passed->sizes[-1 - extent] : extent;
  }
  if (plan->numpy) {
    Py_IncRef(t->type); /* which is taken over */
    return known.new_array(known.array, (ArrayType *)t->type, t->rank, extents, NULL, NULL, 0, NULL);
  }
  passed->tensors[n].ndim = t->rank;
  passed->tensors[n].shape = extents;
  compact(passed, n);
  return fresh_tensor(t, extents, passed->strides[n]);
}

/* Make the outputs of a call: one, or a tuple of them; null where one cannot be made. */
static Object *made(const Plan *plan, Passed *passed, int outputs, Object **each) {
  Object *all = outputs == 1 ? NULL : PyTuple_New(outputs);
  for (int n = 0; n < outputs; n++) {
    each[n] = fresh(plan, passed, n);
    if (all && each[n]) PyTuple_SetItem(all, n, each[n]); /* which takes it over */
    if (!each[n] || !described(each[n], plan->numpy, passed, n, 1)) {
      if (all || each[n]) Py_DecRef(all ? all : each[n]);
      return NULL;
    }
  }
  return all ? all : each[0];
}

/* ------------------------------------------------------------------------------------- the call */

static int launch(const Plan *plan, Passed *passed, int count, const TVMFFIAny *values) {
  TVMFFIAny arguments[TENSORS + SCALARS] = {0}, result = {0};
  for (int n = 0; n < count; n++) {
    TVMFFIAny *argument = &arguments[plan->tensors[n].place];
    argument->type_index = kTVMFFIDLTensorPtr;
    argument->v_ptr = &passed->tensors[n];
    if (plan->numpy) passed->tensors[n].dtype = plan->tensors[n].element;
  }
  for (int n = 0; n < plan->scalars; n++) arguments[count + n] = values[n];
  TVMFFIObjectHandle function = plan->function;
  void *thread = PyEval_SaveThread();
  int refused = known.run(function, arguments, count + plan->scalars, &result);
  PyEval_RestoreThread(thread);
  if (refused) {
    TVMFFIObjectHandle error = NULL;
    known.error(&error);
    if (error) known.release(error);
  }
  return !refused;
}

/* Tell torch which tensors were written to, so that its gradients notice. A tensor of inference mode
 * has no version to count. */
static void notify(Object **written, int count) {
  for (int n = 0; n < count; n++)
    if (!known.is_inference(written[n] + 1)) known.bump_version(written[n] + 1);
}

static int taken(const Caller *caller, Object *out, Object **each) {
  if (caller->outputs == 1) {
    each[0] = out;
    return 1;
  }
  if (out->type != &PyTuple_Type || PyTuple_Size(out) != caller->outputs) return 0;
  for (int n = 0; n < caller->outputs; n++) each[n] = PyTuple_GetItem(out, n);
  return 1;
}

/* Run, and return the outputs; null without an error where the call must go the long way. */
static Object *straight(Caller *caller, Object *const *inputs, Object *out, Keywords given) {
  Passed passed;
  Object *each[TENSORS];
  TVMFFIAny values[SCALARS];
  int outputs = caller->outputs, count = outputs + caller->inputs, numpy, first = 0;
  while (first < caller->inputs - 1 && inputs[first]->type == &PyLong_Type) first++;
  numpy = inputs[first]->type == known.array;
  if (!of_inputs(caller, inputs, numpy, &passed)) return NULL;
  if (out) {
    if (!taken(caller, out, each)) return NULL;
    for (int n = 0; n < outputs; n++)
      if (!described(each[n], numpy, &passed, n, 1)) return NULL;
  }
  Plan *plan = chosen(caller, &passed, numpy, out ? 0 : outputs);
  if (!plan || !of_keywords(plan, given, values)) return NULL;
  Object *owner = plan->owner;
  Py_IncRef(owner);
  Object *result = out;
  if (out) Py_IncRef(out);
  else result = made(plan, &passed, outputs, each);
  if (result) {
    *plan->recent = 1;
    if (!launch(plan, &passed, count, values)) {
      Py_DecRef(result);
      result = NULL;
    } else if (out && !numpy) {
      notify(each, outputs);
    }
  }
  Py_DecRef(owner);
  return result;
}

static Object *otherwise(Caller *caller, Object *const *given, intptr_t count, Object *names) {
  Object *kernel = PyObject_CallObject(caller->kernel, NULL);
  if (kernel == &_Py_NoneStruct) PyErr_SetString(PyExc_ReferenceError, "the kernel is gone");
  if (!kernel || kernel == &_Py_NoneStruct) return NULL;
  Object *arguments = PyTuple_New(count + 1), *words = PyDict_New(), *result = NULL;
  PyTuple_SetItem(arguments, 0, kernel);
  for (intptr_t n = 0; n < count; n++) {
    Py_IncRef(given[n]);
    PyTuple_SetItem(arguments, n + 1, given[n]);
  }
  intptr_t named = names ? PyTuple_Size(names) : 0, n = 0;
  while (n < named && !PyDict_SetItem(words, PyTuple_GetItem(names, n), given[count + n])) n++;
  if (n == named) result = PyObject_Call(caller->other, arguments, words);
  Py_DecRef(arguments);
  Py_DecRef(words);
  return result;
}

static Object *call(Object *self, Object *const *given, intptr_t count, Object *names) {
  Caller *caller = PyCapsule_GetPointer(self, NULL);
  intptr_t named = names ? PyTuple_Size(names) : 0;
  Object *out = NULL, *result = NULL;
  Keywords words = {names, given + count};
  for (intptr_t n = 0; n < named; n++) {
    int is_out = !PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, n), "out");
    if (is_out && words.values[n] != &_Py_NoneStruct) out = words.values[n];
  }
  if (count == caller->inputs) result = straight(caller, given, out, words);
  if (result || PyErr_Occurred()) return result;
  return otherwise(caller, given, count, names);
}

static Method method = {"__call__", call, KEYWORDS, NULL};

static void forget(Object *capsule) { Py_DecRef(PyCapsule_GetContext(capsule)); }

/* Return a function that calls by `caller`, which `owner` keeps. */
Object *septran_function(Caller *caller, Object *owner) {
  Object *capsule = PyCapsule_New(caller, NULL, forget);
  Py_IncRef(owner);
  PyCapsule_SetContext(capsule, owner);
  Object *function = PyCFunction_NewEx(&method, capsule, NULL);
  Py_DecRef(capsule);
  return function;
}
