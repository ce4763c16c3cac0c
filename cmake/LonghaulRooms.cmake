# Rooms are the folders of src/. A room is an object library lh_<room>; the program is made of
# all of them, liblonghaul of those that longhaul.h needs, a test links only the rooms that it names.

add_library(lh_flags INTERFACE)
target_compile_options(lh_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes -Wno-unknown-pragmas>)
target_compile_options(lh_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas;-std=c++17>)
if(LH_WERROR)
    target_compile_options(lh_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
    target_compile_options(lh_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>)
endif()
target_include_directories(lh_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(lh_flags INTERFACE _GNU_SOURCE)
target_link_libraries(lh_flags INTERFACE Threads::Threads m lh_hardening)
target_compile_options(lh_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:${OpenMP_C_FLAGS}>)
target_link_libraries(lh_flags INTERFACE ${OpenMP_C_LIBRARIES})
if(LH_SANITIZE)
    target_compile_options(lh_flags INTERFACE
        $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${LH_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>)
    target_link_options(lh_flags INTERFACE -fsanitize=${LH_SANITIZE})
endif()
# assert() is for faults of our own and stays on in every build. Of a language that is enabled.
macro(lh_keep_asserts language)
    foreach(build RELEASE RELWITHDEBINFO MINSIZEREL)
        string(REPLACE "-DNDEBUG" "" CMAKE_${language}_FLAGS_${build} "${CMAKE_${language}_FLAGS_${build}}")
    endforeach()
endmacro()
lh_keep_asserts(C)
if(CMAKE_CUDA_COMPILER)
    lh_keep_asserts(CUDA)
endif()

# lh_room(<room> SOURCES <files…> [LIBS <targets…>] [ON <rooms…>])  ON: the rooms that it calls, which a test that names
# this room links too
function(lh_room room)
    cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;ON" ${ARGN})
    set_property(GLOBAL PROPERTY LH_ROOM_${room}_ON ${ARG_ON})
    add_library(lh_${room} OBJECT ${ARG_SOURCES})
    target_link_libraries(lh_${room} PUBLIC lh_flags ${ARG_LIBS})
    set_property(GLOBAL APPEND PROPERTY LH_ROOMS lh_${room})
endfunction()

# lh_test(<name> SOURCES <files…> ROOMS <rooms…> [LIBS …] [LABELS …] [TIMEOUT s])  a Check program, forks
function(lh_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;ROOMS;LIBS;LABELS" ${ARGN})
    lh_test_program(${name} SOURCES ${ARG_SOURCES} ROOMS ${ARG_ROOMS} LIBS ${ARG_LIBS})
    add_test(NAME ${name} COMMAND ${name})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 300)
    endif()
    # Tests share the cores: a thread that waits must not spin.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ENVIRONMENT OMP_WAIT_POLICY=passive)
endfunction()

# Adds to the list of rooms those that they call, and those that these call.
function(lh_rooms_below rooms)
    set(all "")
    set(next ${${rooms}})
    while(next)
        list(POP_FRONT next room)
        if(NOT room IN_LIST all)
            list(APPEND all ${room})
            get_property(on GLOBAL PROPERTY LH_ROOM_${room}_ON)
            list(APPEND next ${on})
        endif()
    endwhile()
    set(${rooms} ${all} PARENT_SCOPE)
endfunction()

# The program alone, in <build>/tests/.
function(lh_test_program name)
    cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBS" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    lh_rooms_below(ARG_ROOMS)
    list(TRANSFORM ARG_ROOMS PREPEND lh_)
    target_link_libraries(${name} PRIVATE lh_flags PkgConfig::CHECK ${ARG_ROOMS} ${ARG_LIBS})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# What mpirun needs to run more ranks than there are cores, as any user, without a rank being tied to one core.
set(LH_ANY_HOSTS_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMP_WAIT_POLICY=passive")
# Ranks of one host: without a search for networks, which takes a third of the start.
set(LH_MPI_ENVIRONMENT "${LH_ANY_HOSTS_ENVIRONMENT};OMPI_MCA_pml=ob1;OMPI_MCA_btl=self,vader")

# lh_mpi_test(<name> RANKS 1 2 3 [LONG_RANKS 4] …)  the program <name> (made by lh_test_program, with ROOMS comm device
# base among others) under mpirun, one CTest test a rank count, <name>_<ranks>r<suffix>; it uses tests/mpi_check.h.
# LONG_RANKS are labelled `long`, and 2 and 4 RANKS `full` (docs/testing.md). UNDER: a program that starts mpirun. For
# CTest they are one test, however many ranks: a rank that waits for the others sleeps.
function(lh_mpi_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT;SUFFIX" "RANKS;LONG_RANKS;LABELS;ARGS;ENVIRONMENT;UNDER" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 600) # of several ranks on few cores, beside other tests
    endif()
    get_target_property(sources ${name} SOURCES)
    if(NOT "${CMAKE_SOURCE_DIR}/tests/mpi_check.c" IN_LIST sources)
        target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/mpi_check.c)
    endif()
    foreach(ranks ${ARG_RANKS} ${ARG_LONG_RANKS})
        set(labels mpi ${ARG_LABELS})
        if(ranks IN_LIST ARG_LONG_RANKS)
            list(APPEND labels long)
        elseif(ranks MATCHES "[24]")
            list(APPEND labels full)
        endif()
        set(test ${name}_${ranks}r${ARG_SUFFIX})
        add_test(NAME ${test}
            COMMAND ${ARG_UNDER} ${MPIEXEC_EXECUTABLE} -n ${ranks} $<TARGET_FILE:${name}> ${ARG_ARGS})
        set_tests_properties(${test} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${labels}"
            ENVIRONMENT "${LH_MPI_ENVIRONMENT};OMP_NUM_THREADS=1;${ARG_ENVIRONMENT}")
    endforeach()
endfunction()
