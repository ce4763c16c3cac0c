# Writes OUTPUT, a C source with the bytes and the SHA-256 of the style sheets and the script in FOLDER.
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/embed_bytes.cmake)

file(WRITE ${OUTPUT} "#include \"lab/report/report_impl.h\"\n")
foreach(asset drawing=drawing.css page=page.css js=page.js)
    string(REPLACE "=" ";" parts ${asset})
    list(GET parts 0 name)
    list(GET parts 1 file)
    bytes_of(bytes ${FOLDER}/${file})
    file(SIZE ${FOLDER}/${file} size)
    file(SHA256 ${FOLDER}/${file} hash)
    string(REGEX REPLACE "(..)" "0x\\1," hash "${hash}")
    file(APPEND ${OUTPUT} "static const unsigned char ${name}_text[] = {${bytes}0};\n"
        "const lh_asset lh_asset_${name} = {${name}_text, ${size}, {${hash}}};\n")
endforeach()
