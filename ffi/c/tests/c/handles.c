/* Calls every function with handles that are null, of another kind, closed, or invented. Each
 * call returns an error and does nothing else. */
#include "check.h"

/* Calls all functions that take a world, with an invalid one. */
static void no_world(strait_world world)
{
    uint32_t number = 0;
    uint64_t data = 0;
    int flag = 0;
    void *base = &data;
    strait_status status;
    strait_request request = NULL;
    strait_message message = NULL;
    strait_window window = NULL;
    strait_group group = NULL;
    strait_vc vc = NULL;
    strait_cookie cookie;
    strait_info info;
    strait_counters counters;
    struct iovec part = part_of(&data, sizeof data);
    memset(&cookie, 0, sizeof cookie);
    info.size = sizeof info;
    counters.size = sizeof counters;

    FAILS(STRAIT_ERR_HANDLE, strait_finalize(world));
    FAILS(STRAIT_ERR_HANDLE, strait_abort(world, 1));
    FAILS(STRAIT_ERR_HANDLE, strait_rank(world, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_size(world, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_nodes(world, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_node_of(world, 0, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_progress(world));
    FAILS(STRAIT_ERR_HANDLE, strait_barrier(world, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_send(world, 0, &data, 8, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_send(world, 0, &data, 4, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_recv(world, 0, &data, 8, 0, 0, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_recv(world, 0, &data, 4, 0, 0, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_isend(world, 0, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_irecv(world, 0, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_isendv(world, 0, &part, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_irecvv(world, 0, &part, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_ssend(world, 0, &data, 8, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_issend(world, 0, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_issendv(world, 0, &part, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_probe(world, 0, 0, 0, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_iprobe(world, 0, 0, 0, &flag, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_mprobe(world, 0, 0, 0, &message, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_improbe(world, 0, 0, 0, &flag, &message, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_packet_handle(world, 0, NULL, NULL));
    FAILS(STRAIT_ERR_HANDLE, strait_packet_send(world, 0, 0, &part, 1, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_lmt_pre_send(world, 0, &part, 1, &cookie, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_lmt_start_recv(world, &cookie, &part, 1, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_init(world, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_vc(world, 0, &vc));
    FAILS(STRAIT_ERR_HANDLE, strait_window_allocate(world, NULL, 8, 1, &window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_allocate_shared(world, NULL, 8, 1, &window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_create(world, NULL, &data, 8, 1, &window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_create_dynamic(world, NULL, &window));
    FAILS(STRAIT_ERR_HANDLE, strait_group_create(world, 0, NULL, 0, &group));
    FAILS(STRAIT_ERR_HANDLE, strait_memory_allocate(world, 8, &base));
    FAILS(STRAIT_ERR_HANDLE, strait_memory_free(world, &data));
    FAILS(STRAIT_ERR_HANDLE, strait_invalidate(world, &data, 8));
    FAILS(STRAIT_ERR_HANDLE, strait_get_info(world, &info));
    FAILS(STRAIT_ERR_HANDLE, strait_get_counters(world, &counters));
    CHECK(request == NULL && message == NULL && window == NULL && group == NULL && vc == NULL && base == &data);
}

/* Calls all functions that take a group, with an invalid one. */
static void no_group(strait_group group)
{
    strait_group place = group, other = NULL;
    strait_run block = {0, 8};
    strait_reduction sum;
    uint64_t data = 0, result = 0;
    size_t count = 1;
    uint32_t number = 0;

    memset(&sum, 0, sizeof sum);
    sum.size = sizeof sum, sum.type = STRAIT_UINT64, sum.op = STRAIT_SUM;
    FAILS(STRAIT_ERR_HANDLE, strait_group_split(group, 0, 0, &other));
    FAILS(STRAIT_ERR_HANDLE, strait_group_duplicate(group, &other));
    FAILS(STRAIT_ERR_HANDLE, strait_group_free(&place));
    FAILS(STRAIT_ERR_HANDLE, strait_group_size(group, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_group_place(group, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_group_rank(group, 0, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_group_barrier(group));
    FAILS(STRAIT_ERR_HANDLE, strait_broadcast(group, &data, 8, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_gather(group, &data, 8, &result, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_gatherv(group, &data, 8, &result, &block, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_scatter(group, &data, &result, 8, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_scatterv(group, &data, &block, &result, 8, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_allgather(group, &data, 8, &result));
    FAILS(STRAIT_ERR_HANDLE, strait_allgatherv(group, &data, 8, &result, &block));
    FAILS(STRAIT_ERR_HANDLE, strait_alltoall(group, &data, &result, 8));
    FAILS(STRAIT_ERR_HANDLE, strait_alltoallv(group, &data, &block, &result, &block));
    FAILS(STRAIT_ERR_HANDLE, strait_reduce(group, &data, &result, 1, &sum, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_allreduce(group, &data, &result, 1, &sum));
    FAILS(STRAIT_ERR_HANDLE, strait_reduce_scatter_block(group, &data, &result, 1, &sum));
    FAILS(STRAIT_ERR_HANDLE, strait_reduce_scatter(group, &data, &result, &count, &sum));
    FAILS(STRAIT_ERR_HANDLE, strait_scan(group, &data, &result, 1, &sum));
    FAILS(STRAIT_ERR_HANDLE, strait_exscan(group, &data, &result, 1, &sum));
    CHECK(other == NULL && place == group);
}

/* Arguments of collective operations that no group can accept. */
static void bad_collectives(strait_world world)
{
    strait_run far_away = {SIZE_MAX, 8}, short_block = {0, 4};
    strait_reduction sum;
    uint64_t data = 0, result = 0;
    uint32_t twice[2] = {0, 0}, number = 0;
    strait_group group;

    memset(&sum, 0, sizeof sum);
    FAILS(STRAIT_ERR_ARGUMENT, strait_group_create(world, 0, NULL, 0, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_group_create(world, STRAIT_CONTEXT_MAX + 1, NULL, 0, &group));
    FAILS(STRAIT_ERR_COLLECTIVE, strait_group_create(world, 0, twice, 2, &group));
    OK(strait_group_create(world, 0, twice, 1, &group));
    FAILS(STRAIT_ERR_BUSY, strait_finalize(world));
    FAILS(STRAIT_ERR_ARGUMENT, strait_group_rank(group, 1, &number));
    FAILS(STRAIT_ERR_ARGUMENT, strait_group_split(group, (int64_t)1 << 40, 0, &group));
    FAILS(STRAIT_ERR_ARGUMENT, strait_group_split(group, 0, 0, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_broadcast(group, NULL, 8, 0));
    FAILS(STRAIT_ERR_COLLECTIVE, strait_broadcast(group, &data, 8, 1));
    FAILS(STRAIT_ERR_ARGUMENT, strait_gather(group, &data, SIZE_MAX, &result, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_gather(group, &data, 8, NULL, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_gatherv(group, &data, 8, &result, NULL, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_gatherv(group, &data, 8, &result, &far_away, 0));
    FAILS(STRAIT_ERR_COLLECTIVE, strait_gatherv(group, &data, 8, &result, &short_block, 0));
    FAILS(STRAIT_ERR_COLLECTIVE, strait_allgatherv(group, &data, 8, &result, &short_block));
    FAILS(STRAIT_ERR_ARGUMENT, strait_allreduce(group, &data, &result, 1, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_allreduce(group, &data, &result, 1, &sum));
    sum.size = sizeof sum, sum.type = 77;
    FAILS(STRAIT_ERR_ARGUMENT, strait_allreduce(group, &data, &result, 1, &sum));
    sum.type = STRAIT_UINT64, sum.op = 77;
    FAILS(STRAIT_ERR_ARGUMENT, strait_allreduce(group, &data, &result, 1, &sum));
    sum.op = STRAIT_REPLACE;
    FAILS(STRAIT_ERR_COLLECTIVE, strait_allreduce(group, &data, &result, 1, &sum));
    sum.op = STRAIT_SUM;
    FAILS(STRAIT_ERR_ARGUMENT, strait_allreduce(group, &data, &result, SIZE_MAX / 4, &sum));
    FAILS(STRAIT_ERR_ARGUMENT, strait_scan(group, (char *)&data + 1, &result, 1, &sum));
    FAILS(STRAIT_ERR_ARGUMENT, strait_reduce_scatter(group, &data, &result, NULL, &sum));
    OK(strait_group_free(&group));
    CHECK(group == NULL);
}

static void no_request(strait_request request)
{
    strait_request place = request;
    strait_status status;
    size_t index = 0, over = 0;
    int flag = 0, code = 0;

    FAILS(STRAIT_ERR_HANDLE, strait_test(&place, &flag, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_wait(&place, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_cancel(request, &flag));
    FAILS(STRAIT_ERR_HANDLE, strait_request_free(&place));
    if (request != NULL) {
        FAILS(STRAIT_ERR_HANDLE, strait_wait_all(1, &place, &status, &flag));
        CHECK(flag == STRAIT_ERR_HANDLE);
        FAILS(STRAIT_ERR_HANDLE, strait_wait_all(1, &place, NULL, NULL));
        FAILS(STRAIT_ERR_HANDLE, strait_wait_any(1, &place, &index, &status));
        FAILS(STRAIT_ERR_HANDLE, strait_test_all(1, &place, &flag, &status, &code));
        FAILS(STRAIT_ERR_HANDLE, strait_test_any(1, &place, &flag, &index, &status));
        FAILS(STRAIT_ERR_HANDLE, strait_wait_some(1, &place, &over, &index, &status, &code));
        FAILS(STRAIT_ERR_HANDLE, strait_test_some(1, &place, &over, &index, &status, &code));
        CHECK(over == 0 && index == 0 && code == 0);
    }
    CHECK(place == request);
}

static void no_message(strait_message message)
{
    strait_message place = message;
    strait_request request = NULL;
    strait_status status;
    char byte = 0;
    struct iovec part = part_of(&byte, 1);

    FAILS(STRAIT_ERR_HANDLE, strait_mrecv(&place, &byte, 1, &status));
    FAILS(STRAIT_ERR_HANDLE, strait_imrecv(&place, &byte, 1, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_imrecvv(&place, &part, 1, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_message_free(&place));
    CHECK(place == message && request == NULL);
}

static void no_window(strait_window window)
{
    strait_window place = window;
    strait_request request = NULL;
    strait_shape shape = {1, 8, 8, NULL};
    strait_lock_counters counters = {sizeof counters, 0, 0, 0, 0, 0};
    uint64_t data = 0, result = 0;
    size_t displacement = 0;
    uint32_t number = 0;
    int flag = 0;
    struct iovec part = part_of(&data, sizeof data);

    FAILS(STRAIT_ERR_HANDLE, strait_window_free(&place));
    FAILS(STRAIT_ERR_HANDLE, strait_window_place(window, &number));
    FAILS(STRAIT_ERR_HANDLE, strait_window_part(window, 0, NULL, NULL, NULL));
    FAILS(STRAIT_ERR_HANDLE, strait_window_atomicity(window, &flag));
    FAILS(STRAIT_ERR_HANDLE, strait_window_needs_target(window, STRAIT_OPERATION_PUT, &flag));
    FAILS(STRAIT_ERR_HANDLE, strait_window_attach(window, &data, 8, &displacement));
    FAILS(STRAIT_ERR_HANDLE, strait_window_detach(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_put(window, &data, 8, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_get(window, &data, 8, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_putv(window, &part, 1, 0, 0, &shape));
    FAILS(STRAIT_ERR_HANDLE, strait_getv(window, &part, 1, 0, 0, &shape));
    FAILS(STRAIT_ERR_HANDLE, strait_rput(window, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_rget(window, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_accumulate(window, &data, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM));
    FAILS(STRAIT_ERR_HANDLE, strait_get_accumulate(window, &data, &result, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM));
    FAILS(STRAIT_ERR_HANDLE,
          strait_raccumulate(window, &data, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM, &request));
    FAILS(STRAIT_ERR_HANDLE,
          strait_rget_accumulate(window, &data, &result, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM, &request));
    FAILS(STRAIT_ERR_HANDLE, strait_fetch_and_op(window, &data, &result, STRAIT_UINT64, 0, 0, STRAIT_SUM));
    FAILS(STRAIT_ERR_HANDLE, strait_compare_and_swap(window, &data, &data, &result, STRAIT_UINT64, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_fence(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_post(window, &number, 1, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_start(window, &number, 1, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_complete(window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_wait(window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_test(window, &flag));
    FAILS(STRAIT_ERR_HANDLE, strait_window_lock(window, STRAIT_SHARED, 0, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_unlock(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_lock_all(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_unlock_all(window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_lock_design(window, &flag));
    FAILS(STRAIT_ERR_HANDLE, strait_window_lock_counters(window, &counters));
    FAILS(STRAIT_ERR_HANDLE, strait_window_flush(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_flush_all(window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_flush_local(window, 0));
    FAILS(STRAIT_ERR_HANDLE, strait_window_flush_local_all(window));
    FAILS(STRAIT_ERR_HANDLE, strait_window_sync(window));
    CHECK(place == window && request == NULL && displacement == 0);
}

static void no_connection(strait_vc vc)
{
    char byte = 0;
    int moved = 0;
    struct iovec part = part_of(&byte, 1);

    FAILS(STRAIT_ERR_HANDLE, strait_rdma_put_datav(vc, &part, 1, &moved));
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_read_datav(vc, &part, 1, &moved));
}

/* Calls all functions with an invalid handle of each kind. */
static void nothing(void *handle)
{
    no_world((strait_world)handle);
    no_request((strait_request)handle);
    no_message((strait_message)handle);
    no_window((strait_window)handle);
    no_connection((strait_vc)handle);
}

/* Passes arguments that are null, too long, or invalid. */
static void bad_arguments(strait_world world, strait_window window)
{
    strait_request request = NULL;
    uint64_t data = 0;
    size_t displacement = 0, over = 0;
    uint32_t number = 7;
    int flag = 0;
    struct iovec part = part_of(NULL, 8);
    struct iovec many[2] = {{&data, SIZE_MAX / 2}, {&data, SIZE_MAX / 2}};
    strait_options options;
    strait_info info;
    strait_world other;
    strait_window other_window;
    strait_members members;
    memset(&options, 0, sizeof options);
    memset(&members, 0, sizeof members);

    FAILS(STRAIT_ERR_VERSION, strait_init(STRAIT_ABI + 0x10000u, NULL, &other));
    FAILS(STRAIT_ERR_VERSION, strait_init(STRAIT_ABI + 1, NULL, &other));
    FAILS(STRAIT_ERR_ARGUMENT, strait_init(STRAIT_ABI, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_init(STRAIT_ABI, &options, &other));
    options.size = sizeof options + 8;
    FAILS(STRAIT_ERR_VERSION, strait_init(STRAIT_ABI, &options, &other));
    FAILS(STRAIT_ERR_ARGUMENT, strait_init_in_process(STRAIT_ABI, 1, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_rank(world, NULL));
    FAILS(STRAIT_ERR_RANK, strait_node_of(world, 9, &number));
    FAILS(STRAIT_ERR_ARGUMENT, strait_send(world, 0, NULL, 8, 0, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_send(world, 0, &data, SIZE_MAX, 0, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_send(world, STRAIT_CONTEXT_MAX + 1, &data, 8, 0, 0));
    FAILS(STRAIT_ERR_RANK, strait_send(world, 0, &data, 8, 9, 0));
    FAILS(STRAIT_ERR_TAG, strait_send(world, 0, &data, 8, 0, STRAIT_ANY_TAG));
    FAILS(STRAIT_ERR_ARGUMENT, strait_recv(world, 0, NULL, 8, 0, 0, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_barrier(world, STRAIT_CONTEXT_MAX + 1));
    FAILS(STRAIT_ERR_ARGUMENT, strait_isend(world, 0, &data, 8, 0, 0, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_isendv(world, 0, &part, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_isendv(world, 0, NULL, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_isendv(world, 0, &part, -1, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_isendv(world, 0, many, 2, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_ssend(world, 0, NULL, 8, 0, 0));
    FAILS(STRAIT_ERR_RANK, strait_ssend(world, 0, &data, 8, 9, 0));
    FAILS(STRAIT_ERR_TAG, strait_ssend(world, 0, &data, 8, 0, STRAIT_ANY_TAG));
    FAILS(STRAIT_ERR_ARGUMENT, strait_issend(world, 0, &data, 8, 0, 0, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_issend(world, STRAIT_CONTEXT_MAX + 1, &data, 8, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_issendv(world, 0, NULL, 1, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_issendv(world, 0, many, 2, 0, 0, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test(NULL, &flag, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait(NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait_all(1, NULL, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait_any(1, &request, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_all(1, NULL, &flag, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_all(1, &request, NULL, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_any(1, &request, NULL, &displacement, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_any(1, &request, &flag, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait_some(1, NULL, &over, &displacement, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait_some(1, &request, NULL, &displacement, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_some(1, &request, NULL, &displacement, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_request_free(NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_iprobe(world, 0, 0, 0, NULL, NULL));
    FAILS(STRAIT_ERR_TAG, strait_packet_handle(world, STRAIT_ANY_TAG, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_free(NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_create_dynamic(world, NULL, NULL));
    FAILS(STRAIT_ERR_WINDOW, strait_window_attach(window, &data, 8, &displacement));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_attach(window, &data, 8, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_attach(window, NULL, 8, &displacement));
    FAILS(STRAIT_ERR_WINDOW, strait_window_detach(window, (uintptr_t)&data));
    FAILS(STRAIT_ERR_WINDOW, strait_put(window, &data, 8, 1, 0));
    FAILS(STRAIT_ERR_WINDOW, strait_put(window, &data, 8, 0, 8));
    FAILS(STRAIT_ERR_ARGUMENT, strait_put(window, NULL, 8, 0, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_accumulate(window, &data, 1, 99, 0, 0, NULL, STRAIT_SUM));
    FAILS(STRAIT_ERR_ARGUMENT, strait_accumulate(window, &data, 1, STRAIT_UINT64, 0, 0, NULL, -1));
    FAILS(STRAIT_ERR_ARGUMENT, strait_accumulate(window, (char *)&data + 1, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM));
    FAILS(STRAIT_ERR_WINDOW, strait_accumulate(window, &data, 1, STRAIT_DOUBLE, 0, 0, NULL, STRAIT_BAND));
    FAILS(STRAIT_ERR_ARGUMENT, strait_raccumulate(window, &data, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_raccumulate(window, &data, 1, 99, 0, 0, NULL, STRAIT_SUM, &request));
    FAILS(STRAIT_ERR_ARGUMENT,
          strait_rget_accumulate(window, &data, NULL, 1, STRAIT_UINT64, 0, 0, NULL, STRAIT_SUM, &request));
    FAILS(STRAIT_ERR_WINDOW, strait_rget_accumulate(window, &data, &data, 1, STRAIT_UINT64, 7, 0, NULL, STRAIT_SUM, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_compare_and_swap(window, &data, &data, &data, STRAIT_DOUBLE, 0, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_fence(window, 64));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_post(window, NULL, 1, 0));
    FAILS(STRAIT_ERR_WINDOW, strait_window_complete(window));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_lock(window, 0, 0, 0));
    FAILS(STRAIT_ERR_WINDOW, strait_window_unlock(window, 0));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_lock_counters(window, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_needs_target(window, STRAIT_OPERATION_BLOCKS + 1, &flag));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_needs_target(window, -1, &flag));
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_needs_target(window, STRAIT_OPERATION_PUT, NULL));
    members.size = sizeof members, members.lock_design = STRAIT_LOCK_THREAD_PER_WINDOW + 1;
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_allocate(world, &members, 8, 1, &other_window));
    members.lock_design = 0, members.lock_policy = STRAIT_POLICY_COST + 1;
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_allocate(world, &members, 8, 1, &other_window));
    members.lock_policy = STRAIT_POLICY_HISTORY, members.lock_hysteresis = 3, members.lock_remembered = 2;
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_allocate(world, &members, 8, 1, &other_window));
    members.lock_policy = STRAIT_POLICY_HYSTERESIS, members.lock_hysteresis = 0;
    FAILS(STRAIT_ERR_ARGUMENT, strait_window_allocate(world, &members, 8, 1, &other_window));
    members.size = sizeof members + 8, members.lock_policy = 0;
    FAILS(STRAIT_ERR_VERSION, strait_window_allocate(world, &members, 8, 1, &other_window));
    FAILS(STRAIT_ERR_ARGUMENT, strait_memory_allocate(world, 0, (void **)&request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_memory_free(world, &data));
    info.size = 0;
    FAILS(STRAIT_ERR_ARGUMENT, strait_get_info(world, &info));
    info.size = sizeof info + 1, info.rank = 77;
    FAILS(STRAIT_ERR_VERSION, strait_get_info(world, &info));
    CHECK(info.rank == 77);
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_init(world, 5));
    CHECK(request == NULL);
}

/* A refused argument leaves the message unchanged. The message can be returned and matched
 * again. */
static void bad_messages(strait_world world, strait_message *message)
{
    strait_message other = NULL, kept = *message;
    strait_request request = NULL;
    char byte = 0;
    int found = 7;

    FAILS(STRAIT_ERR_ARGUMENT, strait_mprobe(world, 0, 0, 5, NULL, NULL));
    FAILS(STRAIT_ERR_RANK, strait_mprobe(world, 0, 9, 5, &other, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_mprobe(world, STRAIT_CONTEXT_MAX + 1, 0, 5, &other, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_improbe(world, 0, 0, 5, NULL, &other, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_improbe(world, 0, 0, 5, &found, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_mrecv(NULL, &byte, 1, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_mrecv(message, NULL, 1, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_imrecv(NULL, &byte, 1, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_imrecv(message, NULL, 1, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_imrecv(message, &byte, 1, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_imrecvv(message, NULL, 1, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_imrecvv(message, NULL, -1, &request));
    FAILS(STRAIT_ERR_ARGUMENT, strait_message_free(NULL));
    CHECK(*message == kept && other == NULL && request == NULL && found == 7);
    OK(strait_improbe(world, 0, 0, 5, &found, &other, NULL));
    CHECK(!found && other == NULL);
    OK(strait_message_free(message));
    CHECK(*message == NULL);
    no_message(kept);
    OK(strait_improbe(world, 0, 0, 5, &found, message, NULL));
    CHECK(found && *message != kept);
}

/* Passes a list with requests of two worlds. */
static void foreign(strait_world world, strait_world other)
{
    strait_request list[2], kept[2];
    char bytes[2];
    size_t over = 7, indices[2] = {7, 7};
    int done = 7;

    OK(strait_irecv(world, 0, &bytes[0], 1, 0, 9, &list[0]));
    OK(strait_irecv(other, 0, &bytes[1], 1, 0, 9, &list[1]));
    memcpy(kept, list, sizeof kept);
    FAILS(STRAIT_ERR_HANDLE, strait_test_all(2, list, &done, NULL, NULL));
    FAILS(STRAIT_ERR_HANDLE, strait_test_any(2, list, &done, indices, NULL));
    FAILS(STRAIT_ERR_HANDLE, strait_wait_some(2, list, &over, indices, NULL, NULL));
    FAILS(STRAIT_ERR_HANDLE, strait_test_some(2, list, &over, indices, NULL, NULL));
    CHECK(done == 7 && over == 7 && indices[0] == 7 && memcmp(kept, list, sizeof kept) == 0);
    OK(strait_request_free(&list[0]));
    OK(strait_request_free(&list[1]));
}

int main(void)
{
    strait_world world, gone, other;
    strait_request request, freed;
    strait_message message, received;
    size_t number;
    strait_window window, closed;
    strait_vc vc;
    char byte;

    nothing(NULL);
    OK(strait_init_in_process(STRAIT_ABI, 1, &gone));
    world = gone;
    OK(strait_finalize(world));
    nothing(gone);
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_finalize());

    OK(strait_init_in_process(STRAIT_ABI, 1, &world));
    OK(strait_init_in_process(STRAIT_ABI, 1, &other));
    CHECK(world != gone && world != other);
    OK(strait_send(world, 0, "m", 1, 0, 5));
    OK(strait_mprobe(world, 0, 0, 5, &message, NULL));
    OK(strait_irecv(world, 0, &byte, 1, 0, 0, &request));
    OK(strait_window_allocate(world, NULL, 8, 1, &window));
    OK(strait_rdma_init(world, 0));
    OK(strait_rdma_vc(world, 0, &vc));

    /* Handles of another kind, invented handles, and handles that are closed while their world
     * is open. */
    no_world((strait_world)request), no_world((strait_world)window), no_world((strait_world)vc);
    no_request((strait_request)world), no_request((strait_request)window), no_request((strait_request)vc);
    no_message((strait_message)world), no_message((strait_message)request), no_message((strait_message)window);
    no_world((strait_world)message), no_request((strait_request)message), no_window((strait_window)message);
    no_window((strait_window)world), no_window((strait_window)request), no_window((strait_window)vc);
    no_connection((strait_vc)world), no_connection((strait_vc)request), no_connection((strait_vc)window);
    nothing(&byte);
    nothing((void *)UINTPTR_MAX);
    nothing((char *)message + (1l << 32)), nothing((char *)message + 4096);
    nothing((char *)world + 1), nothing((char *)request + 8), nothing((char *)window + (1l << 32));
    no_group((strait_group)world), no_group((strait_group)request), no_group((strait_group)window);
    no_group(NULL);
    bad_arguments(world, window);
    bad_collectives(world);

    bad_messages(world, &message);
    received = message;
    OK(strait_mrecv(&message, &byte, 1, NULL));
    CHECK(message == NULL && byte == 'm');
    no_message(received);
    freed = request, closed = window;
    FAILS(STRAIT_ERR_BUSY, strait_finalize(world));
    FAILS(STRAIT_ERR_BUSY, strait_rdma_init(other, 0));
    OK(strait_request_free(&request));
    OK(strait_window_free(&window));
    CHECK(request == NULL && window == NULL);
    no_request(freed);
    no_window(closed);
    OK(strait_irecv(world, 0, &byte, 1, 0, 0, &request));
    CHECK(request != freed);
    FAILS(STRAIT_ERR_ARGUMENT, strait_wait_some(1, &request, &number, NULL, NULL, NULL));
    FAILS(STRAIT_ERR_ARGUMENT, strait_test_some(1, &request, &number, NULL, NULL, NULL));
    foreign(world, other);
    no_request(freed);
    OK(strait_rdma_finalize());
    no_connection(vc);
    OK(strait_send(world, 0, "n", 1, 0, 5));
    OK(strait_mprobe(world, 0, 0, 5, &message, NULL));
    OK(strait_finalize(world));
    no_request(request);
    no_message(message);
    OK(strait_finalize(other));

    CHECK(strcmp(strait_error_name(STRAIT_ERR_HANDLE), "STRAIT_ERR_HANDLE") == 0);
    CHECK(strcmp(strait_error_name(STRAIT_OK), "STRAIT_OK") == 0);
    CHECK(strcmp(strait_error_name(-5), "unknown") == 0);
    CHECK(strait_abi() == STRAIT_ABI && strlen(strait_version()) > 0);
    return 0;
}
