# frozen_string_literal: true

# Puma and Falcon send no 103 by default either, and wrk would count each as an answer.
early_hints false

# Requests that would be refused after two seconds wait as long as in the others' backlogs, in rows that measure
# waiting.
queue max_wait: Float(ENV["SHOP_PATIENCE"]) if ENV["SHOP_PATIENCE"]
