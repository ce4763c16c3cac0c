# Writes OUTPUT, a C source with the table lh_chat_builtins: the names of NAMES and the text of each NAME.jinja.
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/embed_bytes.cmake)

string(REPLACE " " ";" NAMES "${NAMES}")
set(rows "")
file(WRITE ${OUTPUT} "#include \"text/chat.h\"\n")
foreach(name ${NAMES})
    bytes_of(bytes ${CMAKE_CURRENT_LIST_DIR}/${name}.jinja)
    string(MAKE_C_IDENTIFIER "text_${name}" text)
    file(APPEND ${OUTPUT} "static const unsigned char ${text}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)${text}, sizeof ${text} - 1},\n")
endforeach()
file(APPEND ${OUTPUT} "const lh_chat_builtin lh_chat_builtins[] = {\n${rows}    {NULL, NULL, 0}};\n")
