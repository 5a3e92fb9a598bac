json.extract! item, :id, :name, :price, :description, :in_stock, :created_at, :updated_at
