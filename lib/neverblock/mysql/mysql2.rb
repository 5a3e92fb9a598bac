# frozen_string_literal: true

# The gem mysql2 in the place of trilogy, whose names of errors and flags the shared code uses:
#
#     mysql2_client.rb               its client, with the methods of a Trilogy
#     mysql2_connection.rb           a real connection
#     mysql2_virtual_connection.rb   what the adapters hold: a virtual one, with the methods of a Mysql2::Client
require_relative "../mysql"
require_relative "mysql2_client"
require_relative "mysql2_connection"
require_relative "mysql2_virtual_connection"
