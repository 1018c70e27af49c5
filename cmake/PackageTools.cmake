# Read by CPack: finds the dependencies of a .deb by our script around dpkg-shlibdeps.
set(SHLIBDEPS_EXECUTABLE ${CMAKE_CURRENT_LIST_DIR}/../tools/find_deb_dependencies CACHE FILEPATH "" FORCE)
