/* A child of fork has no part in its parent's job. The parent's handles are invalid in it, and
 * it can have worlds of its own. The parent's handles stay valid in the parent. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void child(strait_world inherited, strait_request request)
{
    strait_world world;
    uint64_t number = 7, received = 0;
    uint32_t rank;

    FAILS(STRAIT_ERR_FORKED, strait_rank(inherited, &rank));
    FAILS(STRAIT_ERR_FORKED, strait_send(inherited, 0, &number, 8, 0, 0));
    FAILS(STRAIT_ERR_FORKED, strait_wait(&request, NULL));
    FAILS(STRAIT_ERR_FORKED, strait_finalize(inherited));
    FAILS(STRAIT_ERR_BOOT, strait_init(STRAIT_ABI, NULL, &world));

    OK(strait_init_in_process(STRAIT_ABI, 1, &world));
    CHECK(world != inherited);
    OK(strait_send(world, 0, &number, 8, 0, 0));
    OK(strait_recv(world, 0, &received, 8, 0, 0, NULL));
    CHECK(received == number);
    /* A world of this process does not make the parent's handles valid. */
    FAILS(STRAIT_ERR_HANDLE, strait_rank(inherited, &rank));
    OK(strait_finalize(world));
    _exit(0);
}

int main(void)
{
    strait_world worlds[2];
    strait_request request;
    uint64_t number = 5, received = 0;
    int status;
    pid_t pid;

    OK(strait_init_in_process(STRAIT_ABI, 2, worlds));
    OK(strait_irecv(worlds[1], 0, &received, 8, 0, 0, &request));
    pid = fork();
    if (pid == 0) {
        child(worlds[0], request);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    OK(strait_send(worlds[0], 0, &number, 8, 1, 0));
    OK(strait_wait(&request, NULL));
    CHECK(received == number);
    OK(strait_finalize(worlds[0]));
    OK(strait_finalize(worlds[1]));
    return 0;
}
