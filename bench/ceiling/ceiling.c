/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least work a compiled broker can do behind CPython's API; a yardstick, not a queue to use.
 *
 * Queue: a body is copied into a ring under one mutex, a receive locks a slot and copies the body into a new bytes
 * object, a complete checks the token and frees the slot. No partitions, properties, expiry, limits or waiting.
 * Columns: the same ring, but bodies come from the buffers of one Arrow array and go into the buffers of another, with
 * one hold of the mutex for all rows; no Python object per message.
 * partition_ids: XXH64 of each value of an Arrow string array, straight from its buffers; partition_ids_of_list: of
 * each `str` of a list, whose text Python keeps beside it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_READY = 1, SLOT_LOCKED, SLOT_DONE };

typedef struct {
    char *body;
    uint32_t length;
    uint32_t state;
    uint64_t token;
} Slot;

typedef struct {
    PyObject_HEAD
    pthread_mutex_t mutex;
    Slot *slots;
    uint64_t mask, head, next, tail; /* head <= next <= tail: oldest kept, next to hand out, next free */
    uint64_t token;
} Queue;

static int grow(Queue *queue) {
    uint64_t size = queue->mask + 1;
    Slot *larger = malloc(2 * size * sizeof(Slot));
    if (larger == NULL) return -1;
    for (uint64_t n = queue->head; n != queue->tail; n++) larger[n & (2 * size - 1)] = queue->slots[n & queue->mask];
    free(queue->slots);
    queue->slots = larger;
    queue->mask = 2 * size - 1;
    return 0;
}

static int put(Queue *queue, PyObject *body) {
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(body, &bytes, &length) < 0) return -1;
    char *copy = malloc(length ? length : 1);
    if (copy == NULL) return PyErr_NoMemory(), -1;
    memcpy(copy, bytes, length);
    pthread_mutex_lock(&queue->mutex);
    int failed = queue->tail - queue->head > queue->mask && grow(queue) < 0;
    if (!failed) queue->slots[queue->tail++ & queue->mask] = (Slot){copy, (uint32_t)length, SLOT_READY, 0};
    pthread_mutex_unlock(&queue->mutex);
    if (failed) return free(copy), PyErr_NoMemory(), -1;
    return 0;
}

static PyObject *take(Queue *queue) { /* a (number, token, body) tuple, or NULL without an error when it is empty */
    pthread_mutex_lock(&queue->mutex);
    if (queue->next == queue->tail) return pthread_mutex_unlock(&queue->mutex), NULL;
    uint64_t number = queue->next++;
    Slot *slot = &queue->slots[number & queue->mask];
    slot->state = SLOT_LOCKED;
    slot->token = ++queue->token;
    Slot taken = *slot;
    pthread_mutex_unlock(&queue->mutex);
    PyObject *body = PyBytes_FromStringAndSize(taken.body, taken.length);
    PyObject *first = PyLong_FromUnsignedLongLong(number), *second = PyLong_FromUnsignedLongLong(taken.token);
    PyObject *message = body && first && second ? PyTuple_Pack(3, first, second, body) : NULL;
    Py_XDECREF(body);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return message;
}

static int settle(Queue *queue, PyObject *message) {
    uint64_t number = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(message, 0));
    uint64_t token = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(message, 1));
    char *body = NULL;
    pthread_mutex_lock(&queue->mutex);
    Slot *slot = &queue->slots[number & queue->mask];
    if (number >= queue->head && number < queue->next && slot->state == SLOT_LOCKED && slot->token == token) {
        body = slot->body;
        slot->state = SLOT_DONE;
        while (queue->head != queue->next && queue->slots[queue->head & queue->mask].state == SLOT_DONE) queue->head++;
    }
    pthread_mutex_unlock(&queue->mutex);
    if (body == NULL) return PyErr_SetString(PyExc_ValueError, "not locked by this token"), -1;
    free(body);
    return 0;
}

static PyObject *queue_send(Queue *self, PyObject *body) {
    if (put(self, body) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *queue_send_many(Queue *self, PyObject *bodies) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(bodies); i++)
        if (put(self, PyList_GET_ITEM(bodies, i)) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *queue_receive(Queue *self, PyObject *max_count) {
    Py_ssize_t count = PyLong_AsSsize_t(max_count);
    PyObject *messages = PyList_New(0);
    for (Py_ssize_t i = 0; messages && i < count; i++) {
        PyObject *message = take(self);
        if (message == NULL) break;
        if (PyList_Append(messages, message) < 0) Py_CLEAR(messages);
        Py_DECREF(message);
    }
    if (PyErr_Occurred()) Py_CLEAR(messages);
    return messages;
}

static PyObject *queue_complete(Queue *self, PyObject *message) {
    if (settle(self, message) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *queue_complete_many(Queue *self, PyObject *messages) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(messages); i++)
        if (settle(self, PyList_GET_ITEM(messages, i)) < 0) return NULL;
    Py_RETURN_NONE;
}

/* --- columns: addresses of Arrow buffers in, bytes objects that Arrow takes over as buffers out */

static PyObject *queue_send_columns(Queue *self, PyObject *args) { /* (offsets, data, rows) */
    unsigned long long offsets_at, data_at;
    Py_ssize_t rows, row;
    if (!PyArg_ParseTuple(args, "KKn", &offsets_at, &data_at, &rows)) return NULL;
    const int32_t *offsets = (const int32_t *)(uintptr_t)offsets_at;
    const char *data = (const char *)(uintptr_t)data_at;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    for (row = 0; row < rows && !failed; row++) {
        uint32_t length = (uint32_t)(offsets[row + 1] - offsets[row]);
        char *copy = malloc(length ? length : 1);
        failed = copy == NULL || (self->tail - self->head > self->mask && grow(self) < 0);
        if (failed) {
            free(copy);
            break;
        }
        memcpy(copy, data + offsets[row], length);
        self->slots[self->tail++ & self->mask] = (Slot){copy, length, SLOT_READY, 0};
    }
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *queue_receive_columns(Queue *self, PyObject *max_count) { /* (rows, numbers, tokens, offsets, data) */
    Py_ssize_t wanted = PyLong_AsSsize_t(max_count);
    if (wanted < 0) return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_ValueError, "negative count"), NULL);
    pthread_mutex_lock(&self->mutex);
    uint64_t first = self->next, ready = self->tail - first, count = (uint64_t)wanted < ready ? (uint64_t)wanted : ready;
    uint64_t token = self->token + 1, total = 0;
    for (uint64_t n = first; n != first + count; n++) {
        Slot *slot = &self->slots[n & self->mask];
        slot->state = SLOT_LOCKED;
        slot->token = ++self->token;
        total += slot->length;
    }
    self->next += count;
    pthread_mutex_unlock(&self->mutex);
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, count * 8), *tokens = PyBytes_FromStringAndSize(NULL, count * 8);
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, (count + 1) * 4), *data = PyBytes_FromStringAndSize(NULL, total);
    PyObject *answer = NULL;
    if (numbers && tokens && offsets && data) {
        uint64_t *number = (uint64_t *)PyBytes_AS_STRING(numbers), *lock = (uint64_t *)PyBytes_AS_STRING(tokens);
        int32_t *offset = (int32_t *)PyBytes_AS_STRING(offsets);
        char *at = PyBytes_AS_STRING(data), *start = at;
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&self->mutex); /* another thread may let the ring grow */
        for (uint64_t row = 0; row < count; row++) {
            Slot *slot = &self->slots[(first + row) & self->mask];
            number[row] = first + row;
            lock[row] = token + row;
            offset[row] = (int32_t)(at - start);
            memcpy(at, slot->body, slot->length);
            at += slot->length;
        }
        pthread_mutex_unlock(&self->mutex);
        offset[count] = (int32_t)(at - start);
        Py_END_ALLOW_THREADS
        answer = Py_BuildValue("nOOOO", (Py_ssize_t)count, numbers, tokens, offsets, data);
    }
    Py_XDECREF(numbers);
    Py_XDECREF(tokens);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    return answer;
}

static PyObject *queue_complete_columns(Queue *self, PyObject *args) { /* (numbers, tokens) */
    PyObject *numbers, *tokens;
    if (!PyArg_ParseTuple(args, "SS", &numbers, &tokens)) return NULL;
    Py_ssize_t rows = PyBytes_GET_SIZE(numbers) / 8, row;
    const uint64_t *number = (const uint64_t *)PyBytes_AS_STRING(numbers);
    const uint64_t *lock = (const uint64_t *)PyBytes_AS_STRING(tokens);
    if (PyBytes_GET_SIZE(tokens) / 8 != rows) return PyErr_SetString(PyExc_ValueError, "columns differ in length"), NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    for (row = 0; row < rows; row++) {
        Slot *slot = &self->slots[number[row] & self->mask];
        if (number[row] < self->head || number[row] >= self->next || slot->token != lock[row]) break;
        if (slot->state != SLOT_LOCKED) break;
        slot->state = SLOT_DONE;
        free(slot->body);
    }
    while (self->head != self->next && self->slots[self->head & self->mask].state == SLOT_DONE) self->head++;
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
    if (row < rows) return PyErr_SetString(PyExc_ValueError, "not locked by this token"), NULL;
    Py_RETURN_NONE;
}

static Py_ssize_t queue_length(Queue *self) { return (Py_ssize_t)(self->tail - self->head); }

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    Queue *self = (Queue *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->mask = 1023;
    self->slots = malloc((self->mask + 1) * sizeof(Slot));
    pthread_mutex_init(&self->mutex, NULL);
    return (PyObject *)self;
}

static void queue_free(Queue *self) {
    for (uint64_t n = self->head; n != self->tail; n++)
        if (self->slots[n & self->mask].state != SLOT_DONE) free(self->slots[n & self->mask].body);
    free(self->slots);
    pthread_mutex_destroy(&self->mutex);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef queue_methods[] = {
    {"send", (PyCFunction)queue_send, METH_O, "Copy one bytes object in."},
    {"send_many", (PyCFunction)queue_send_many, METH_O, "Copy a list of bytes objects in."},
    {"receive", (PyCFunction)queue_receive, METH_O, "Lock up to n; a list of (number, token, body)."},
    {"complete", (PyCFunction)queue_complete, METH_O, "Free one locked message."},
    {"complete_many", (PyCFunction)queue_complete_many, METH_O, "Free a list of locked messages."},
    {"send_columns", (PyCFunction)queue_send_columns, METH_VARARGS, "Copy the values of an Arrow binary array in."},
    {"receive_columns", (PyCFunction)queue_receive_columns, METH_O, "Lock up to n; their numbers, tokens and bodies."},
    {"complete_columns", (PyCFunction)queue_complete_columns, METH_VARARGS, "Free what these numbers and tokens lock."},
    {NULL},
};

static PySequenceMethods queue_as_sequence = {.sq_length = (lenfunc)queue_length};

static PyTypeObject QueueType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "compiled_ceiling.Queue",
    .tp_basicsize = sizeof(Queue),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = queue_new,
    .tp_dealloc = (destructor)queue_free,
    .tp_methods = queue_methods,
    .tp_as_sequence = &queue_as_sequence,
};

/* --- XXH64, seed 42, as its specification describes it; little-endian machines only */

#define P1 0x9E3779B185EBCA87ULL
#define P2 0xC2B2AE3D27D4EB4FULL
#define P3 0x165667B19E3779F9ULL
#define P4 0x85EBCA77C2B2AE63ULL
#define P5 0x27D4EB2F165667C5ULL

static inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
static inline uint64_t read64(const uint8_t *at) { uint64_t x; memcpy(&x, at, 8); return x; }
static inline uint32_t read32(const uint8_t *at) { uint32_t x; memcpy(&x, at, 4); return x; }
static inline uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }
static inline uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * P1 + P4; }

static inline uint64_t xxh64(const uint8_t *at, size_t length) {
    const uint64_t seed = 42;
    const uint8_t *end = at + length;
    uint64_t hash = seed + P5;
    if (length >= 32) {
        uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; at + 32 <= end; at += 32) {
            a = mix(a, read64(at));
            b = mix(b, read64(at + 8));
            c = mix(c, read64(at + 16));
            d = mix(d, read64(at + 24));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += length;
    for (; at + 8 <= end; at += 8) hash = rotate(hash ^ mix(0, read64(at)), 27) * P1 + P4;
    if (at + 4 <= end) hash = rotate(hash ^ read32(at) * P1, 23) * P2 + P3, at += 4;
    for (; at < end; at++) hash = rotate(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ (hash >> 33)) * P2;
    hash = (hash ^ (hash >> 29)) * P3;
    return hash ^ (hash >> 32);
}

static PyObject *partition_ids(PyObject *module, PyObject *args) { /* (offsets, data, rows, out, partitions) */
    unsigned long long offsets_at, data_at, out_at;
    Py_ssize_t rows;
    unsigned partitions;
    if (!PyArg_ParseTuple(args, "KKnKI", &offsets_at, &data_at, &rows, &out_at, &partitions)) return NULL;
    const int32_t *offsets = (const int32_t *)(uintptr_t)offsets_at;
    const uint8_t *data = (const uint8_t *)(uintptr_t)data_at;
    int32_t *out = (int32_t *)(uintptr_t)out_at;
    if (partitions == 0 || (partitions & (partitions - 1)))
        return PyErr_SetString(PyExc_ValueError, "partitions must be a power of two"), NULL;
    for (Py_ssize_t row = 0; row < rows; row++)
        out[row] = xxh64(data + offsets[row], offsets[row + 1] - offsets[row]) & (partitions - 1);
    Py_RETURN_NONE;
}

static PyObject *partition_ids_of_list(PyObject *module, PyObject *args) { /* (list of str, out, partitions) */
    PyObject *keys;
    unsigned long long out_at;
    unsigned partitions;
    if (!PyArg_ParseTuple(args, "O!KI", &PyList_Type, &keys, &out_at, &partitions)) return NULL;
    int32_t *out = (int32_t *)(uintptr_t)out_at;
    if (partitions == 0 || (partitions & (partitions - 1)))
        return PyErr_SetString(PyExc_ValueError, "partitions must be a power of two"), NULL;
    for (Py_ssize_t row = 0; row < PyList_GET_SIZE(keys); row++) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(keys, row), &length);
        if (text == NULL) return NULL;
        out[row] = xxh64((const uint8_t *)text, length) & (partitions - 1);
    }
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"partition_ids_of_list", partition_ids_of_list, METH_VARARGS, "Hash each text of a list."},
    {"partition_ids", partition_ids, METH_VARARGS, "Hash the values of an Arrow string array, by buffer addresses."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled_ceiling", "A yardstick.", -1, module_methods};

PyMODINIT_FUNC PyInit_compiled_ceiling(void) {
    PyObject *self = PyModule_Create(&module);
    if (self == NULL || PyType_Ready(&QueueType) < 0) return NULL;
    if (PyModule_AddObjectRef(self, "Queue", (PyObject *)&QueueType) < 0) return NULL;
    return self;
}
