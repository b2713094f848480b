! A program in Fortran, for each of its three interfaces: MPIF (mpif.h), MPI (use mpi) and F08
! (use mpi_f08). A check that fails ends the job.
#ifdef F08
#define HANDLE(name) type(MPI_/**/name)
#define STATUS_TYPE type(MPI_Status)
#define SOURCE_OF(s) s%MPI_SOURCE
#define TAG_OF(s) s%MPI_TAG
#else
#define HANDLE(name) integer
#define STATUS_TYPE integer, dimension(MPI_STATUS_SIZE)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#endif
#ifdef MPIF
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#elif defined(F08)
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#else
#define USE_MPI use mpi
#define INCLUDE_MPI
#endif

module checks
  implicit none
  integer :: rank, ranks
contains
  subroutine check(condition, what)
    USE_MPI
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    integer :: ierr
    INCLUDE_MPI
    if (.not. condition) then
      write (0, *) 'rank', rank, ': ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine

#ifdef F08
  ! Composes linear functions, which do not commute: a pair (a, b) is the function a x + b.
  subroutine compose(left, right, length, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    use mpi_f08
    type(c_ptr), value :: left, right
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: f(:), g(:)
    call c_f_pointer(left, f, [2 * length])
    call c_f_pointer(right, g, [2 * length])
    call compose_pairs(f, g, length)
  end subroutine
#else
  subroutine compose(f, g, length, datatype)
    integer :: length, datatype, f(2 * length), g(2 * length)
    call compose_pairs(f, g, length)
  end subroutine
#endif

  subroutine compose_pairs(f, g, length)
    integer :: length, f(2 * length), g(2 * length), i
    do i = 1, 2 * length, 2
      g(i + 1) = mod(g(i) * f(i + 1) + g(i + 1), 10007)
      g(i) = mod(g(i) * f(i), 10007)
    end do
  end subroutine
end module

program front
  USE_MPI
  use checks
  implicit none
  INCLUDE_MPI
  integer :: ierr, next, before
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call check(ranks == 3, 'three ranks')
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  call messages()
  call arrays_of_requests()
  call probes()
  call types()
  call collectives()
  call windows()
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (rank == 0) print '(a)', 'well'

contains

  ! Wildcards, ignored statuses, counts, characters, and communicators.
  subroutine messages()
    HANDLE(Comm) :: copy, half
    STATUS_TYPE :: status
    integer :: i, n, value(1000), place
    character(12) :: text
    call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierr)
    do i = 1, 300
      value = i + rank
      if (rank == 0) then
        call MPI_Recv(value, 1000, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, status, ierr)
        call MPI_Get_count(status, MPI_INTEGER, n, ierr)
        call check(n == i .and. TAG_OF(status) == i, 'a count and a tag')
        call check(all(value(1:n) == i + SOURCE_OF(status)), 'a message from any source')
        call MPI_Recv(value, 1000, MPI_INTEGER, MPI_ANY_SOURCE, i, copy, MPI_STATUS_IGNORE, ierr)
        call MPI_Barrier(copy, ierr)
      else
        if (mod(i, 2) == 0) call MPI_Send(value, i, MPI_INTEGER, 0, i, copy, ierr)
        if (mod(i, 2) == 1) call MPI_Ssend(value, i, MPI_INTEGER, 0, i, copy, ierr)
        call MPI_Barrier(copy, ierr)
      end if
    end do
    call MPI_Comm_split(copy, mod(rank, 2), -rank, half, ierr)
    call MPI_Comm_rank(half, place, ierr)
    text = 'none'
    if (rank == 2) call MPI_Send('two to zero', 11, MPI_CHARACTER, 1, 5, half, ierr)
    if (rank == 0) then
      call MPI_Recv(text, 12, MPI_CHARACTER, 0, 5, half, status, ierr)
      call check(place == 1 .and. text(1:11) == 'two to zero', 'a text in a half')
    end if
    value(1) = rank
    call MPI_Sendrecv_replace(value, 1, MPI_INTEGER, next, 1, before, 1, copy, status, ierr)
    call check(value(1) == before .and. SOURCE_OF(status) == before, 'a replaced number')
    call MPI_Comm_free(half, ierr)
    call MPI_Comm_free(copy, ierr)
  end subroutine

  ! Requests that end, and persistent ones that stay in their array.
  subroutine arrays_of_requests()
    HANDLE(Request) :: request(4)
    STATUS_TYPE :: status
    integer :: i, ended, number, in(2), out(2)
    logical :: flag
    call MPI_Recv_init(in(1), 1, MPI_INTEGER, before, 7, MPI_COMM_WORLD, request(1), ierr)
    call MPI_Send_init(out(1), 1, MPI_INTEGER, next, 7, MPI_COMM_WORLD, request(2), ierr)
    do i = 1, 50
      out = [rank + i, rank - i]
      call MPI_Startall(2, request, ierr)
      call MPI_Irecv(in(2), 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, request(3), ierr)
      call MPI_Isend(out(2), 1, MPI_INTEGER, before, i, MPI_COMM_WORLD, request(4), ierr)
      if (mod(i, 3) == 0) then
        call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, ierr)
      else
        ! The indices are not checked: those of MPICH 4.0 differ between its interfaces.
        do ended = 1, 4
          if (mod(i, 3) == 1) call MPI_Waitany(4, request, number, status, ierr)
          flag = mod(i, 3) == 1
          do while (.not. flag)
            call MPI_Testany(4, request, number, flag, status, ierr)
          end do
        end do
      end if
      call check(in(1) == before + i .and. in(2) == next - i, 'what requests brought')
      call check(request(3) == MPI_REQUEST_NULL, 'an ended request')
      call check(.not. request(1) == MPI_REQUEST_NULL, 'a persistent request')
    end do
    call MPI_Request_free(request(1), ierr)
    call MPI_Request_free(request(2), ierr)
    call MPI_Irecv(in, 1, MPI_INTEGER, next, 99, MPI_COMM_WORLD, request(1), ierr)
    call MPI_Cancel(request(1), ierr)
    call MPI_Wait(request(1), status, ierr)
    call MPI_Test_cancelled(status, flag, ierr)
    call check(flag, 'a cancelled receive')
  end subroutine

  subroutine probes()
    HANDLE(Message) :: message
    STATUS_TYPE :: status
    integer :: n, value(10)
    logical :: flag
    call MPI_Send([rank, rank, rank], 3, MPI_INTEGER, next, 4, MPI_COMM_WORLD, ierr)
    call MPI_Send([rank], 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, ierr)
    call MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, status, ierr)
    call check(SOURCE_OF(status) == before, 'a probed source')
    call MPI_Iprobe(before, 6, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierr)
    call check(.not. flag, 'a message that nobody sent')
    call MPI_Mprobe(before, MPI_ANY_TAG, MPI_COMM_WORLD, message, status, ierr)
    call MPI_Get_count(status, MPI_INTEGER, n, ierr)
    call check(n == 3 .and. TAG_OF(status) == 4, 'a matched message')
    call MPI_Mrecv(value, n, MPI_INTEGER, message, status, ierr)
    call check(all(value(1:3) == before), 'a message that was matched')
    call MPI_Recv(value, 1, MPI_INTEGER, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine

  ! Derived types, from absolute addresses too, and sections of arrays.
  subroutine types()
    HANDLE(Datatype) :: row, both
    HANDLE(Request) :: request(2)
    integer(MPI_ADDRESS_KIND) :: places(2)
    integer :: i, j, matrix(5, 7), line(7)
    integer, asynchronous :: number
    real(8), asynchronous :: real_number
    matrix = reshape([((100 * rank + 10 * i + j, i = 1, 5), j = 1, 7)], [5, 7])
    call MPI_Type_vector(7, 1, 5, MPI_INTEGER, row, ierr)
    call MPI_Type_commit(row, ierr)
    call MPI_Isend(matrix(3, 1), 1, row, next, 1, MPI_COMM_WORLD, request(1), ierr)
    call MPI_Recv(line, 7, MPI_INTEGER, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierr)
    call check(all(line == [(100 * before + 30 + j, j = 1, 7)]), 'a row of a matrix')
    number = -1
    real_number = -1
    if (rank == 0) then
      number = 77
      real_number = 0.5d0
    end if
    call MPI_Get_address(number, places(1), ierr)
    call MPI_Get_address(real_number, places(2), ierr)
    call MPI_Type_create_struct(2, [1, 1], places, [MPI_INTEGER, MPI_DOUBLE_PRECISION], both, ierr)
    call MPI_Type_commit(both, ierr)
    if (rank == 0) call MPI_Send(MPI_BOTTOM, 1, both, 1, 2, MPI_COMM_WORLD, ierr)
    if (rank == 1) call MPI_Recv(MPI_BOTTOM, 1, both, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Bcast(MPI_BOTTOM, 1, both, 1, MPI_COMM_WORLD, ierr)
    call check(number == 77 .and. real_number == 0.5d0, 'absolute addresses')
#ifdef F08
    if (MPI_SUBARRAYS_SUPPORTED) then
      line = 0
      call MPI_Irecv(line(1:7:2), 4, MPI_INTEGER, before, 3, MPI_COMM_WORLD, request(1))
      call MPI_Isend(matrix(2:5, 4), 4, MPI_INTEGER, next, 3, MPI_COMM_WORLD, request(2))
      call MPI_Waitall(2, request, MPI_STATUSES_IGNORE)
      call check(all(line(1:7:2) == [(100 * before + 10 * i + 4, i = 2, 5)]), 'a section')
      call check(all(line(2:6:2) == 0), 'what is between a section')
    end if
#endif
    call MPI_Type_free(row, ierr)
    call MPI_Type_free(both, ierr)
  end subroutine

  ! In place, with pairs of a value and a place, and with an operation of the program.
  subroutine collectives()
    HANDLE(Op) :: op
    HANDLE(Datatype) :: pair
    integer :: i, sums(4), all_ranks(3), function_of(2), expected(2), other(2)
    real(8) :: best(2), gathered(6)
    sums = [(rank * i, i = 1, 4)]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(all(sums == [(3 * i, i = 1, 4)]), 'a sum in place')
    all_ranks = -1
    all_ranks(rank + 1) = rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all_ranks, 1, MPI_INTEGER, MPI_COMM_WORLD, &
                       ierr)
    call check(all(all_ranks == [0, 1, 2]), 'a gather in place')
    best = [dble(mod(rank + 1, 3)), dble(rank)]
    call MPI_Allreduce(MPI_IN_PLACE, best, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, &
                       ierr)
    call check(best(1) == 2 .and. best(2) == 1, 'the place of a maximum')
    gathered(1:2) = dble(rank)
    if (rank == 1) then
      gathered(3:4) = 1
      call MPI_Gather(MPI_IN_PLACE, 2, MPI_DOUBLE_PRECISION, gathered, 2, MPI_DOUBLE_PRECISION, 1, &
                      MPI_COMM_WORLD, ierr)
      call check(all(gathered == [0, 0, 1, 1, 2, 2]), 'a gather at a root in place')
    else
      call MPI_Gather(gathered, 2, MPI_DOUBLE_PRECISION, gathered, 2, MPI_DOUBLE_PRECISION, 1, &
                      MPI_COMM_WORLD, ierr)
    end if
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
    call MPI_Type_commit(pair, ierr)
    call MPI_Op_create(compose, .false., op, ierr)
    expected = [2, 1]
    do i = 1, 2
      other = [i + 2, 2 * i + 1]
      call compose_pairs(expected, other, 1)
      expected = other
    end do
    call MPI_Allreduce([rank + 2, 2 * rank + 1], function_of, 1, pair, op, MPI_COMM_WORLD, ierr)
    call check(all(function_of == expected), 'an operation of the program')
    call MPI_Op_free(op, ierr)
    call MPI_Type_free(pair, ierr)
  end subroutine

  subroutine windows()
    HANDLE(Win) :: win
    integer(MPI_ADDRESS_KIND) :: bytes, bytes_found, zero
    integer, asynchronous :: shared(10)
    integer :: i, got, old
    logical :: flag
    shared = rank
    bytes = 40
    zero = 0
    call MPI_Win_create(shared, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, bytes_found, flag, ierr)
    call check(flag .and. bytes_found == bytes, 'the size of a window')
    call MPI_Win_fence(0, win, ierr)
    do i = 0, 2
      call MPI_Accumulate(rank + 1, 1, MPI_INTEGER, i, zero, 1, MPI_INTEGER, MPI_SUM, win, ierr)
    end do
    call MPI_Put(rank, 1, MPI_INTEGER, next, zero + 4, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(shared(1) == rank + 6 .and. shared(5) == before, 'what others put')
    call MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win, ierr)
    call MPI_Get(got, 1, MPI_INTEGER, next, zero + 4, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_unlock(next, win, ierr)
    call check(got == rank, 'what was put')
    call MPI_Win_lock_all(0, win, ierr)
    call MPI_Fetch_and_op(1, old, MPI_INTEGER, 0, zero + 9, MPI_SUM, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    call MPI_Win_unlock_all(win, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 0) call check(shared(10) == 3, 'a counter')
    call check(old >= 0 .and. old < 3, 'a value of a counter')
    call MPI_Win_free(win, ierr)
  end subroutine
end program
