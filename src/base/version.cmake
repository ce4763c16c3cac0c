# Run at every build: writes OUTPUT from INPUT, touching it only when something changed.
set(ENV{GIT_OPTIONAL_LOCKS} 0)
execute_process(COMMAND git describe --always --dirty --exclude=* WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE LH_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
    set(LH_GIT "")
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
