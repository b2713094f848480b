// Switches both processors to 64-bit code and calls `start`, with memory mapped one to one.
//
// The first processor starts at `enter` by the PVH boot protocol: in 32-bit code, without paging,
// and with the address of the start information in ebx. The second starts at a copy of `wake` in
// low memory, in real mode.

.section .note.pvh, "a", @note
.align 4
.long 4, 4, 18                  // lengths of name and contents, XEN_ELFNOTE_PHYS32_ENTRY
.asciz "Xen"
.long enter

// Enters long mode, from 32-bit code or from real mode. A jump into 64-bit code must follow.
.macro to_long_mode
    mov eax, 0x20               // CR4: physical address extension
    mov cr4, eax
    mov eax, offset page_map
    mov cr3, eax
    mov ecx, 0xc0000080         // EFER: long mode
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, cr0                // CR0: paging and protection on; caches on, which a reset turns off
    and eax, 0x9fffffff
    or eax, 0x80000001
    mov cr0, eax
.endm

.section .text.enter, "ax"
.code32
.global enter
enter:
    cli
    to_long_mode
    lgdt [descriptors_at]
    mov esi, ebx
    .byte 0xea                  // far jump
    .long first
    .word 8

.section .rodata.wake, "a"
.code16
.global wake, wake_end
wake:
    cli
    to_long_mode
    lgdt cs:[wake_offset]
    .byte 0x66, 0xea            // far jump with 32 bits of offset
    .long second
    .word 8
wake_descriptors_at:
    .word 23
    .long descriptors
wake_end:
.set wake_offset, wake_descriptors_at - wake

.section .text.start, "ax"
.code64
first:
    mov edi, 0
    jmp on
second:
    mov edi, 1
on:
    mov eax, 16
    mov ss, eax
    mov ds, eax
    mov es, eax
    lea eax, [rdi + 1]
    shl eax, 18
    lea rsp, [rax + stacks]
    call start

.section .rodata.descriptors, "a"
.align 8
descriptors:
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff     // 64-bit code, data
descriptors_at:
    .word 23
    .long descriptors

// The first gigabyte, mapped one to one in pages of 2 MiB, and the page of the interrupt
// controllers, uncached.
.section .data.pages, "aw"
.align 4096
page_map:
    .quad page_directories + 3
    .fill 511, 8, 0
page_directories:
    .quad low_pages + 3, 0, 0, high_pages + 3
    .fill 508, 8, 0
low_pages:
    .set page, 0
    .rept 512
    .quad page + 0x83
    .set page, page + 0x200000
    .endr
high_pages:
    .fill 503, 8, 0
    .quad 0xfee00000 + 0x93
    .fill 8, 8, 0

.section .bss.stacks, "aw", @nobits
.align 4096
stacks:
    .skip 2 << 18
