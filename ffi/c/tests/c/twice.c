/* The library twice in one process, as when two plug-ins bring a copy each. The copies are
 * independent, and neither accepts the other's handles. Arguments: the library, and a copy of
 * it. */
#include <dlfcn.h>

#include "check.h"

/* A copy's functions. */
struct copy {
    void *library;
    int (*init)(uint32_t abi, uint32_t ranks, strait_world *worlds);
    int (*join)(uint32_t abi, const strait_options *options, strait_world *world);
    int (*finalize)(strait_world world);
    int (*send)(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t to, uint32_t tag);
    int (*recv)(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t from, uint32_t tag,
                strait_status *status);
    int (*irecv)(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t from, uint32_t tag,
                 strait_request *request);
    int (*wait)(strait_request *request, strait_status *status);
    const char *(*message)(void);
};

static void must(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "twice.c: %s\n", what);
        exit(1);
    }
}

static void function(struct copy *copy, const char *name, void *place)
{
    void *symbol = dlsym(copy->library, name);
    must(symbol != NULL, name);
    memcpy(place, &symbol, sizeof symbol);
}

static struct copy load(const char *path)
{
    struct copy copy;
    copy.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(copy.library != NULL, path);
    function(&copy, "strait_init_in_process", &copy.init);
    function(&copy, "strait_init", &copy.join);
    function(&copy, "strait_finalize", &copy.finalize);
    function(&copy, "strait_send", &copy.send);
    function(&copy, "strait_recv", &copy.recv);
    function(&copy, "strait_irecv", &copy.irecv);
    function(&copy, "strait_wait", &copy.wait);
    function(&copy, "strait_error_message", &copy.message);
    return copy;
}

static void work(struct copy *copy, strait_world worlds[2])
{
    uint64_t number = 42, received = 0;
    must(copy->send(worlds[0], 0, &number, 8, 1, 7) == STRAIT_OK, copy->message());
    must(copy->recv(worlds[1], 0, &received, 8, 0, 7, NULL) == STRAIT_OK, copy->message());
    must(received == number, "the number");
}

int main(int count, char **arguments)
{
    struct copy one, other;
    strait_world ones[2], others[2], joined;
    strait_request request, other_request;
    uint64_t number = 0, other_number = 0;
    int first, second;

    must(count == 3, "give the library, and a copy");
    one = load(arguments[1]);
    other = load(arguments[2]);
    must(one.library != other.library, "two copies are two libraries");

    /* There is one job, and the process can be only one of its ranks. Without a launcher neither
     * copy can join. */
    first = one.join(STRAIT_ABI, NULL, &joined);
    second = other.join(STRAIT_ABI, NULL, &joined);
    if (getenv("STRAIT_RANK") != NULL) {
        must(first == STRAIT_OK && second == STRAIT_ERR_BOOT, "the second copy is told that the rank is taken");
        must(other.finalize(joined) == STRAIT_ERR_HANDLE, "a world of the first's");
        must(one.finalize(joined) == STRAIT_OK, one.message());
        return 0;
    }
    must(first == STRAIT_ERR_BOOT && second == STRAIT_ERR_BOOT, "nobody started a job");

    must(one.init(STRAIT_ABI, 2, ones) == STRAIT_OK, one.message());
    must(other.init(STRAIT_ABI, 2, others) == STRAIT_OK, other.message());
    work(&one, ones);
    work(&other, others);
    must(one.send(others[0], 0, &number, 8, 1, 7) == STRAIT_ERR_HANDLE, "a world of the other's");
    must(other.send(ones[0], 0, &number, 8, 1, 7) == STRAIT_ERR_HANDLE, "a world of the one's");
    must(one.irecv(ones[0], 0, &number, 8, 1, 7, &request) == STRAIT_OK, one.message());
    must(other.irecv(others[0], 0, &other_number, 8, 1, 7, &other_request) == STRAIT_OK, other.message());
    must(one.wait(&other_request, NULL) == STRAIT_ERR_HANDLE, "a request of the other's");
    must(other.wait(&request, NULL) == STRAIT_ERR_HANDLE, "a request of the one's");

    for (int rank = 0; rank < 2; rank++) {
        must(one.finalize(ones[rank]) == STRAIT_OK, one.message());
    }
    /* One copy is unloaded, the other stays. */
    dlclose(one.library);
    work(&other, others);
    for (int rank = 0; rank < 2; rank++) {
        must(other.finalize(others[rank]) == STRAIT_OK, other.message());
    }
    dlclose(other.library);
    return 0;
}
