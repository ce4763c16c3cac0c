# Hardening of what is built, where compiler and linker have it: full RELRO, stack protector, fortified calls of the C
# library, control-flow enforcement of x86. Flags are in the target lh_hardening, the names of what is in force in
# LH_HARDENING (tests/cli/binaries.sh). Sanitizers replace these checks by their own.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(lh_hardening INTERFACE)
set(LH_HARDENING "")

# lh_harden(<name> <flag…>): for C, and for the host code of CUDA. C++ is in the tests alone.
function(lh_harden name)
    target_compile_options(lh_hardening INTERFACE "$<$<COMPILE_LANGUAGE:C>:${ARGN}>")
    list(JOIN ARGN "," flags)
    target_compile_options(lh_hardening INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flags}>")
    set(LH_HARDENING ${LH_HARDENING} ${name} PARENT_SCOPE)
endfunction()

check_linker_flag(C "-Wl,-z,relro,-z,now" LH_HAVE_RELRO)
if(LH_HAVE_RELRO)
    target_link_options(lh_hardening INTERFACE -Wl,-z,relro,-z,now)
    list(APPEND LH_HARDENING relro)
endif()
if(NOT LH_SANITIZE)
    check_c_compiler_flag(-fstack-protector-strong LH_HAVE_STACK_PROTECTOR)
    if(LH_HAVE_STACK_PROTECTOR)
        lh_harden(stack-protector -fstack-protector-strong)
    endif()
    # Without optimisation the C library's headers refuse it, with a warning.
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
        lh_harden(fortify -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        check_c_compiler_flag(-fcf-protection LH_HAVE_CET)
        if(LH_HAVE_CET)
            lh_harden(cet -fcf-protection)
        endif()
    endif()
endif()
